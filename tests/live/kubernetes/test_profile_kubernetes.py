"""The whole path on a real cluster: two workers on two nodes, reports fetched and validated."""

import json
import re
import subprocess

import pytest

from tests.live.annotate.marked import list_ranges
from tests.live.hosts import await_true
from tests.live.kubernetes.conftest import Cluster, must
from tests.live.planted import PLANTED, PROGRAM, SECRETS, assert_hidden

pytestmark = [pytest.mark.kubernetes, pytest.mark.docker, pytest.mark.image, pytest.mark.registry]

SMALL = ("python3", "/train.py", "--layers=1", "--width=64", "--steps=3", "--warmup=1")


BOTH = 'python3 -c "$0" 1 && exec "$@"'


def test_two_nodes_leave_two_validated_reports_without_secrets(
    cluster: Cluster, launcher: str
) -> None:
    """Each has the steps and modules of the image's sample, and what the job was given reaches it.

    No secret is in a report, nor in an object that is no Secret. The Secret goes with the job.
    """
    extra = tuple(f"--env={name}={value}" for name, value in PLANTED.items())
    where = (f"--on={launcher}", "--nodes=2", "--gpus=0", f"--image={cluster.image}", *extra)
    job = ("--ddp", "--annotate=modules", "--trace=nvtx", "--", "sh", "-c", BOTH, PROGRAM, *SMALL)
    words = cluster.argv("profile", *where, *job)
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as child:
        await_true(lambda: output(cluster).count("got all") == 2 or child.poll() is not None, 240)
        kinds = f"{launcher}s,pods,configmaps,events"
        objects = must(cluster.kubectl("get", kinds, "--output=json"))
        _, said = child.communicate(timeout=300)
    assert child.returncode == 0, said
    assert '"secretKeyRef"' in objects
    assert [name for name, text in SECRETS.items() if text in objects] == []
    record = cluster.record()
    assert record["phase"] == "done"
    assert [facts["rank"] for facts in record["reports"]] == [0, 1]
    assert len({facts["host"] for facts in record["reports"]}) == 2
    assert all(facts["events"]["nvtx"] for facts in record["reports"])
    assert_annotated(cluster)
    assert_hidden(cluster.directory / record["id"])
    assert "@sha256:" in record["image"]
    assert cluster.pods() == [] or all(
        p["metadata"].get("deletionTimestamp") for p in cluster.pods()
    )
    ours = ("--selector=app.kubernetes.io/managed-by=gpu-profile", "--output=name")
    must(cluster.kubectl("wait", "secrets", *ours, "--for=delete", "--timeout=60s"))
    assert must(cluster.kubectl("get", "secrets", *ours)) == ""


def assert_annotated(cluster: Cluster) -> None:
    ranges = list_ranges(cluster.directory / cluster.record()["id"])
    assert len(ranges) == 2
    for calls in ranges.values():
        names = {text.partition("|")[0] for text in calls}
        assert {"step", "forward", "backward", "optimizer AdamW"} <= names
        assert {"forward LanguageModel", "forward guess", "backward guess"} <= names


WORDS = ("a b", "$HOME", "$(HOSTNAME)", "$$", "it's", "ünïcødé", "-x")
SAYS = """echo hello; sleep 2; echo $RANK of $WORLD_SIZE
exec python3 -c 'import json, sys; print("words", json.dumps(sys.argv[1:]))' "$@"
"""
"""Words after it are those of the rank: they are printed as they arrive."""


def test_detached_then_status_logs_fetch_from_elsewhere(cluster: Cluster) -> None:
    """The job's words have gone through the manifest, the kubelet, ssh and mpirun.

    test_stop_live.py has those of the other launchers.
    """
    handle = cluster.started("mpijob", "--", "sh", "-c", SAYS, "sh", *WORDS)
    assert handle.startswith(f"mpijob://{cluster.namespace}/")
    for path in cluster.directory.glob("*/run.json"):
        path.unlink()  # another machine knows the handle alone
    cluster.wait_for("hello", handle)
    said = must(cluster.invoke("logs", "--job", handle, "--follow"))
    fetched = cluster.invoke("fetch", "--job", handle)
    assert fetched.returncode == 0, fetched.stderr
    assert len(cluster.reports()) == 2
    assert "0 of 2" in said
    assert_said(cluster)


def assert_said(cluster: Cluster) -> None:
    """The output has each rank's number, and the words as they were given."""
    text = output(cluster)
    assert "0 of 2" in text
    assert "1 of 2" in text
    (first, *_) = [line for line in text.splitlines() if "words [" in line]
    assert json.loads(first[first.index('["a') :]) == list(WORDS)


RIGHTS = """set -e
test "$(id -u)" = 1000
grep -q '^CapEff:.*0000000000000000$' /proc/self/status
grep -q '^NoNewPrivs:.*1$' /proc/self/status
grep -q '^Seccomp:.*2$' /proc/self/status
test ! -e /var/run/secrets/kubernetes.io/serviceaccount/token
sleep 1
test $RANK = 0 || exit 7
sleep 2"""
"""Rank 1 ends with 7; with 1 ends a rank that has more rights than these."""


def test_ranks_without_rights_one_fails_and_all_reports_come_home(
    cluster: Cluster, launcher: str
) -> None:
    """The init container that the training operator gives a PyTorchJob's workers has no
    securityContext (training-operator 1.9.0, pkg/controller.v1/pytorch/initcontainer.go), so
    `restricted` refuses these pods, whatever ours have.
    """
    fits = "baseline" if launcher == "pytorchjob" else "restricted"
    level = f"pod-security.kubernetes.io/enforce={fits}"
    must(cluster.kubectl("label", "namespace", cluster.namespace, level))
    done = cluster.profile(launcher, "--set=KUBE_RUN_AS_USER=1000", "--", "sh", "-c", RIGHTS)
    assert done.returncode == 5, done.stderr
    assert re.search(r"(exit code|ended with) 7\b", done.stderr), done.stderr
    assert not re.search(r"(exit code|ended with) 1\b", done.stderr), done.stderr
    assert [name.split(".")[0] for name in cluster.reports()] == ["rank0", "rank1"]
    assert cluster.record()["phase"] == "failed"


def output(cluster: Cluster) -> str:
    return "".join(path.read_text() for path in cluster.directory.glob("*/output.log"))
