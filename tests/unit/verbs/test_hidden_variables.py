"""Values of --env stay hidden when another process fetches a job or prints its output."""

from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_profile.runs import record
from gpu_profile.runs.record import OUTPUT_FILE, RunRecord
from tests.invoked import invoke, reporting_here

ENGINE = """
case "$*" in
  "container inspect --format={{json .Config.Env}} train-1")
    echo '["PATH=/bin","HF_TOKEN=hunter2=xyz","MODE=training","PIN_KEY=12"]' ;;
  "container inspect"*)
    printf '%s\\n%s\\n' '{"Status":"exited","ExitCode":0}' '{"gpu-profile.run":"train-1"}' ;;
  logs*train-1) printf 'training 12 with hunter2=xyz\\r'; echo hunter2=xyz >&2; exit "${LOGS:-0}" ;;
esac
"""
REDACTED = "training 12 with ***\r***\n"


@pytest.fixture
def detached(tmp_path: Path, fake_tool: Callable[..., object]) -> Path:
    """The directory of a run that `profile --detach` left; its fake engine has ended the job."""
    fake_tool("docker", ENGINE)
    run = RunRecord(
        id="train-1",
        launcher="docker",
        command=("x",),
        handle="docker://train-1",
        phase="running",
    )
    directory = record.create_run(reporting_here(tmp_path), "train-1")
    record.save_run(run, directory)
    return directory


def test_fetch_hides_the_values_of_a_detached_job(detached: Path, tmp_path: Path) -> None:
    done = invoke("fetch", "--job", "train-1", directory=tmp_path)
    log = (detached / OUTPUT_FILE).read_bytes().decode()
    assert sorted(log) == sorted(REDACTED), done.stderr
    assert "hunter2" not in done.stdout + done.stderr


@pytest.mark.parametrize("follow", [(), ("--follow",)])
@pytest.mark.parametrize("job", ["train-1", "docker://train-1"])
def test_logs_hides_them_too(
    detached: Path, tmp_path: Path, job: str, follow: tuple[str, ...]
) -> None:
    shown = invoke("logs", "--job", job, *follow, directory=tmp_path)
    assert (shown.stdout, shown.stderr) == (REDACTED, "")


def test_logs_that_fail_say_so(detached: Path, tmp_path: Path) -> None:
    failed = invoke("logs", "--job", "train-1", directory=tmp_path, LOGS="7")
    assert failed.returncode == 3
    assert failed.stderr == ("error: `docker logs train-1` exited with 7. See its message above.\n")
