"""The whole path on a real engine: profile, detach, status, logs, stop, fetch, and what fails."""

import functools
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_profile import process
from gpu_profile.command import Command, Result
from tests import invoked
from tests.conftest import HOSTILE_NAMES
from tests.live.hosts import Invoked, assert_costed
from tests.live.planted import PLANTED, PROGRAM, assert_hidden

pytestmark = [pytest.mark.docker, pytest.mark.image]

Invoke = Callable[..., Result]


@pytest.fixture
def invoke(image: str, tmp_path: Path) -> Invoke:
    """`invoke("profile", …)` with the image under test and a report directory of its own."""
    name, _, tag = image.rpartition(":")
    directory = invoked.reporting_here(tmp_path)
    return functools.partial(invoked.invoke, directory=directory, IMAGE=name, VERSION=tag)


def run_record(directory: Path) -> dict[str, object]:
    (path,) = directory.glob("*/run.json")
    record: dict[str, object] = json.loads(path.read_text())
    return record


def reports(directory: Path) -> list[str]:
    return sorted(path.name.split(".")[0] for path in directory.glob("*/*.nsys-rep"))


def test_two_ranks_leave_two_validated_reports(invoke: Invoke, tmp_path: Path) -> None:
    done = invoke("profile", "--ddp", "--processes", "2")
    assert done.returncode == 0, done.stderr
    assert reports(tmp_path) == ["rank0", "rank1"]
    record = run_record(tmp_path)
    assert record["phase"] == "done"
    assert [facts["rank"] for facts in record["reports"]] == [0, 1]  # type: ignore[attr-defined]
    for facts in record["reports"]:  # type: ignore[attr-defined]
        assert facts["events"]["osrt"]
        assert facts["events"]["nvtx"] > 30, "the sample names its steps and their phases"
    assert "nvtx" in done.stdout
    assert process.run(
        Command(argv=("docker", "container", "inspect", str(record["id"])))
    ).returncode, "the container is gone once its reports count"


def test_what_the_profile_cost(image: str, tmp_path: Path) -> None:
    name, _, tag = image.rpartition(":")
    environ = {**os.environ, "IMAGE": name, "VERSION": tag}
    assert_costed(Invoked(tmp_path, environ), "--ddp", "--processes", "2")


def test_only_the_chosen_rank_is_profiled(invoke: Invoke, tmp_path: Path) -> None:
    training = ("python3", "/train.py", "--layers=1", "--width=64", "--steps=3", "--warmup=1")
    words = ("--ddp", "--processes=2", "--ranks=1", "--trace=nvtx")
    done = invoke("profile", *words, "--", *training)
    assert done.returncode == 0, done.stderr
    assert reports(tmp_path) == ["rank1"]


def test_a_detached_job_is_followed_by_its_handle(invoke: Invoke, tmp_path: Path) -> None:
    script = "sleep 0.2; until test -e /wd/*/go; do sleep 0.1; done"
    handle = invoke("profile", "--detach", "--", "sh", "-c", script).stdout.strip()
    assert handle.startswith("docker://")
    assert invoke("status", "--job", handle).stdout.strip() == "running"
    (tmp_path / handle.removeprefix("docker://") / "go").touch()
    early = invoke("logs", "--job", handle, "--follow")
    assert early.returncode == 0
    fetched = invoke("fetch", "--job", handle)
    assert fetched.returncode == 0, fetched.stderr
    assert reports(tmp_path) == ["rank0"]


def begun(invoke: Invoke, *words: str) -> str:
    """The handle of a detached job whose program runs."""
    handle = invoke(*words, "--", "sh", "-c", "echo begun; exec sleep 600").stdout.strip()
    _wait_for(lambda: "begun" in invoke("logs", "--job", handle).stdout)
    return handle


def test_stop_lets_nsys_finalise(invoke: Invoke, tmp_path: Path) -> None:
    handle = begun(invoke, "profile", "--detach")
    assert invoke("stop", "--job", handle).returncode == 0
    fetched = invoke("fetch", "--job", handle)
    assert fetched.returncode == 0, fetched.stderr
    assert "stopped by you" in fetched.stderr
    assert reports(tmp_path) == ["rank0"]


def test_stop_ends_a_program_that_no_nsys_wraps(invoke: Invoke, tmp_path: Path) -> None:
    handle = begun(invoke, "profile", "--detach", "--gpus=0", "--ranks=1")
    assert invoke("stop", "--job", handle).returncode == 0
    assert "exit code 143" in invoke("status", "--job", handle).stdout
    assert invoke("fetch", "--job", handle).returncode == 0


def test_ctrl_c_brings_the_reports_home(image: str, tmp_path: Path) -> None:
    name, _, tag = image.rpartition(":")
    env = {**os.environ, "IMAGE": name, "VERSION": tag}
    job = ("--", "sh", "-c", "echo begun; exec sleep 300")
    words = invoked.argv("profile", *job, directory=invoked.reporting_here(tmp_path))
    with subprocess.Popen(words, env=env, stderr=subprocess.PIPE, text=True) as run:
        _wait_for(lambda: "begun" in "".join(p.read_text() for p in tmp_path.glob("*/output.log")))
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=200)
    assert run.returncode == 130, said
    assert "stopped by you" in said
    assert reports(tmp_path) == ["rank0"]
    assert run_record(tmp_path)["phase"] == "stopped"


def _wait_for(condition: Callable[[], bool], seconds: float = 120) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, "it did not come"
        time.sleep(0.2)


def test_a_job_sees_its_own_run_directory_alone(invoke: Invoke, tmp_path: Path) -> None:
    (tmp_path / "beside").mkdir()
    done = invoke("profile", "--name", "alone", "--", "sh", "-c", "ls -d /wd/*")
    assert done.returncode == 0, done.stderr
    (output,) = tmp_path.glob("*/output.log")
    seen = [line for line in output.read_text().splitlines() if line.startswith("/wd/alone")]
    assert seen == [f"/wd/{output.parent.name}"]
    assert output.parent.stat().st_mode & 0o777 == 0o700


def test_a_job_cannot_write_elsewhere_by_a_link(invoke: Invoke, tmp_path: Path) -> None:
    victim = tmp_path / "authorized_keys"
    victim.write_text("own")
    script = (
        "echo begun; sleep 2; cd /wd/*; for name in output.log .run.json .page.html.part; do"
        f" rm -f $name; ln -s {victim} $name; done; echo words of the job"
    )
    done = invoke("profile", "--name", "escape", "--", "sh", "-c", script)
    assert "Traceback" not in done.stderr
    invoke("html", "--run", "escape")
    assert victim.read_text() == "own"
    (run,) = tmp_path.glob("escape-*")
    assert "words of the job" in (run / "output.log").read_text()


def test_a_run_of_the_first_version_is_fetched(invoke: Invoke, image: str, tmp_path: Path) -> None:
    """Its container sees all of REPORT_DIR as /wd, and its directory is open to all."""
    name = f"gp-trust-{os.getpid()}"
    run = tmp_path / name
    run.mkdir(mode=0o755)
    record = {
        **{"schema": 1, "id": name, "launcher": "docker", "command": ["true"], "nsys": []},
        **{"handle": f"docker://{name}", "phase": "running", "image": image, "started_at": ""},
        **{"seconds": {}, "spec": {}, "versions": {}, "ranks": [0], "kinds": [], "exit_code": None},
        **{"error": "", "baseline": {}, "reports": [], "cleaned": False},
    }
    (run / "run.json").write_text(json.dumps(record))
    start = (
        *("docker", "run", "--detach", f"--name={name}", f"--label=gpu-profile.run={name}"),
        *(f"--mount=type=bind,source={tmp_path},target=/wd", image, "python3", "/profile.py"),
        *("--ranks=all", f"--output=/wd/{name}", "--trace=osrt", "--", "sleep", "1"),
    )
    assert process.run(Command(argv=start)).returncode == 0
    fetched = invoke("fetch", "--job", name)
    assert fetched.returncode == 0, fetched.stderr
    assert run_record(tmp_path)["phase"] == "done"
    assert invoke("stats", "--run", name).returncode == 0
    assert process.run(Command(argv=("docker", "container", "inspect", name))).returncode


def test_a_container_of_somebody_else_is_left_alone(invoke: Invoke, image: str) -> None:
    name = f"gp-trust-db-{os.getpid()}"
    run = ("docker", "run", "--detach", f"--name={name}", image, "sh", "-c", "exit 1")
    assert process.run(Command(argv=run)).returncode == 0
    for verb in ("stop", "fetch"):
        refused = invoke(verb, "--job", f"docker://{name}")
        assert refused.returncode == 2, refused.stderr
        assert "was not started by `invoke profile`" in refused.stderr
    removed = process.run(Command(argv=("docker", "container", "rm", name)))
    assert removed.returncode == 0, "it was still there"


FAILURES = {
    "a program that is not there": (("nope-42",), 5, "nope-42"),
    "a program that fails": (("sh", "-c", "echo the reason; exit 42"), 5, "exit code 42"),
    "a program that dies by a signal": (("sh", "-c", "kill -SEGV $$"), 5, "exit code 139"),
}


@pytest.mark.parametrize(("words", "code", "said"), FAILURES.values(), ids=FAILURES.keys())
def test_a_job_that_fails_is_one_line(
    invoke: Invoke, tmp_path: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    failed = invoke("profile", "--", *words)
    assert failed.returncode == code, failed.stderr
    assert said in failed.stderr
    assert "Traceback" not in failed.stderr
    assert run_record(tmp_path)["phase"] == "failed"


def test_words_reach_the_job_unchanged(invoke: Invoke, tmp_path: Path) -> None:
    script = "import sys; print(ascii(sys.argv[1:]))"
    name = " ".join(HOSTILE_NAMES).replace("\n", " ")  # --name is one line
    done = invoke("profile", "--name", name, "--", "python3", "-c", script, *HOSTILE_NAMES)
    (output,) = tmp_path.glob("*/output.log")
    assert ascii([*HOSTILE_NAMES]) in output.read_text(), done.stderr


def test_secrets_reach_the_program_and_nothing_else(image: str, tmp_path: Path) -> None:
    name, _, tag = image.rpartition(":")
    planted = Invoked(tmp_path, {**os.environ, **PLANTED, "IMAGE": name, "VERSION": tag})
    extra = tuple(f"--env={name}" for name in PLANTED)
    done = planted.run("profile", "--gpus", "0", *extra, "--", "python3", "-c", PROGRAM, "1")
    assert done.returncode == 0, done.stderr
    assert_hidden(planted.latest())


def test_another_process_hides_the_values_of_a_detached_job(image: str, tmp_path: Path) -> None:
    name, _, tag = image.rpartition(":")
    environ = {**os.environ, "IMAGE": name, "VERSION": tag}
    extra = tuple(f"--env={name}" for name in PLANTED)
    words = ("--gpus=0", *extra, "--", "python3", "-c", PROGRAM, "1")
    handle = Invoked(tmp_path, {**environ, **PLANTED}).detached(*words)
    other = Invoked(tmp_path, environ)
    shown = other.run("logs", "--job", handle, "--follow")
    assert "got all 6 *** ***" in shown.stdout, shown.stderr
    fetched = other.run("fetch", "--job", handle)
    assert fetched.returncode == 0, fetched.stderr
    assert_hidden(other.latest())


def test_two_runs_of_one_second_have_different_names(image: str, tmp_path: Path) -> None:
    name, _, tag = image.rpartition(":")
    places = [tmp_path / "a", tmp_path / "b"]
    children = []
    for place in places:
        place.mkdir()
        invoked = Invoked(place, {**os.environ, "IMAGE": name, "VERSION": tag})
        children.append(invoked.start("profile", "--gpus=0", "--", "sleep", "1"))
    for child in children:
        _, said = child.communicate(timeout=300)
        assert child.returncode == 0, said
    assert [len(list(place.glob("*/run.json"))) for place in places] == [1, 1]
