"""The whole path on a real cluster: two workers on two nodes, reports fetched and validated."""

import json
import subprocess

import pytest

from tests.live.hosts import await_true
from tests.live.kubernetes.conftest import Cluster, must
from tests.live.planted import PLANTED, PROGRAM, SECRETS, assert_hidden

pytestmark = [pytest.mark.kubernetes, pytest.mark.docker, pytest.mark.image, pytest.mark.registry]

SMALL = ("--", "python3", "/train.py", "--layers=1", "--width=64", "--steps=3", "--warmup=1")


def test_two_nodes_leave_two_validated_reports(cluster: Cluster, launcher: str) -> None:
    done = cluster.profile(launcher, "--ddp", *SMALL)
    assert done.returncode == 0, done.stderr
    record = cluster.record()
    assert record["phase"] == "done"
    assert [facts["rank"] for facts in record["reports"]] == [0, 1]
    assert len({facts["host"] for facts in record["reports"]}) == 2
    assert all(facts["events"]["nvtx"] for facts in record["reports"])
    assert "@sha256:" in record["image"]
    assert cluster.pods() == [] or all(
        p["metadata"].get("deletionTimestamp") for p in cluster.pods()
    )


def test_detached_then_status_logs_fetch_from_elsewhere(cluster: Cluster, launcher: str) -> None:
    script = "echo hello; sleep 5; echo $RANK of $WORLD_SIZE"
    handle = cluster.started(launcher, "--", "sh", "-c", script)
    assert handle.startswith(f"{launcher}://{cluster.namespace}/")
    for path in cluster.directory.glob("*/run.json"):
        path.unlink()  # another machine knows the handle alone
    cluster.wait_for("hello", handle)
    said = must(cluster.invoke("logs", "--job", handle, "--follow")) if launcher == "mpijob" else ""
    fetched = cluster.invoke("fetch", "--job", handle)
    assert fetched.returncode == 0, fetched.stderr
    assert len(cluster.reports()) == 2
    (output,) = cluster.directory.glob("*/output.log")
    assert "0 of 2" in said + output.read_text()
    assert "1 of 2" in said + output.read_text()


def test_a_failing_rank_fails_the_job_and_its_reports_come_home(
    cluster: Cluster, launcher: str
) -> None:
    script = "sleep 1; test $RANK = 0 || exit 7; sleep 2"
    done = cluster.profile(launcher, "--", "sh", "-c", script)
    assert done.returncode == 5, done.stderr
    assert "7" in done.stderr
    assert any(name.startswith("rank1.") for name in cluster.reports())
    assert cluster.record()["phase"] == "failed"


def test_words_reach_the_rank_as_they_are(cluster: Cluster, launcher: str) -> None:
    words = ["a b", "$HOME", "$(HOSTNAME)", "$$", "it's", "ünïcødé", "-x"]
    program = "import json,sys,time; time.sleep(1); print('words', json.dumps(sys.argv[1:]))"
    done = cluster.profile(launcher, "--", "python3", "-c", program, *words)
    assert done.returncode == 0, done.stderr
    (output,) = cluster.directory.glob("*/output.log")
    (first, *_) = [line for line in output.read_text().splitlines() if "words [" in line]
    assert json.loads(first[first.index('["a') :]) == words


def output(cluster: Cluster) -> str:
    return "".join(path.read_text() for path in cluster.directory.glob("*/output.log"))


def test_secrets_reach_the_program_and_no_report(cluster: Cluster, launcher: str) -> None:
    """Nor an object that is no Secret; the Secret goes with the job."""
    extra = tuple(f"--env={name}={value}" for name, value in PLANTED.items())
    where = (f"--on={launcher}", "--nodes=2", "--gpus=0", f"--image={cluster.image}")
    words = cluster.argv("profile", *where, *extra, "--", "python3", "-c", PROGRAM, "4")
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as child:
        await_true(lambda: output(cluster).count("got all") == 2 or child.poll() is not None, 240)
        kinds = f"{launcher}s,pods,configmaps,events"
        objects = must(cluster.kubectl("get", kinds, "--output=json"))
        _, said = child.communicate(timeout=300)
    assert child.returncode == 0, said
    assert '"secretKeyRef"' in objects
    assert [name for name, text in SECRETS.items() if text in objects] == []
    ours = ("--selector=app.kubernetes.io/managed-by=gpu-profile", "--output=name")
    must(cluster.kubectl("wait", "secrets", *ours, "--for=delete", "--timeout=60s"))
    assert must(cluster.kubectl("get", "secrets", *ours)) == ""
    (record,) = cluster.directory.glob("*/run.json")
    assert_hidden(record.parent)
