"""The parts of a run of CI: output apart, the exit code of the one that failed, the last lines."""

import shutil
import signal
import subprocess
from pathlib import Path

from gpu_profile.settings.places import ROOT
from tests.conftest import find_share

RUN = """
set -euo pipefail
source .ci/parts.sh
start beside sh -c '
  echo first; until [ -e "$0/go" ]; do sleep 0.01; done
  echo "failed: test_a: AssertionError"; echo last; exit 4' "$work"
run live sh -c '
  echo before; touch "$0/go"; until [ -e "$0/beside.end" ]; do sleep 0.01; done; echo after
  echo "=== slowest tests ==="; echo "  7.0 s  test_slow"; echo "=== 3 passed in 1.00s ==="' "$work"
join beside
finish
"""


def test_output_of_two_parts_stays_apart_and_the_failure_is_the_runs() -> None:
    done = subprocess.run(
        ("bash", "-c", RUN), cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 4, done.stderr
    told, _, rest = done.stdout.partition("beside: failed: test_a: AssertionError\n")
    assert "before\nafter\n" in told + rest
    assert "first\nfailed: test_a: AssertionError\nlast\n" in told + rest
    summary = done.stdout.partition("== the slowest live tests\n")[2]
    assert summary.startswith("  7.0 s  test_slow\n\n== seconds of each part\n")
    assert "live: === 3 passed in 1.00s ===\nbeside: failed with exit code 4\n" in summary
    assert "\n== ended with 4 after " in summary


def test_a_run_that_a_signal_ends_has_no_success() -> None:
    lines = "set -euo pipefail; source .ci/parts.sh; kill -TERM $$; sleep 60; finish"
    done = subprocess.run(
        ("bash", "-c", lines), cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == -signal.SIGTERM
    assert "\n== ended with a signal after " in done.stdout


def test_a_night_goes_on_after_a_part_that_failed(tmp_path: Path) -> None:
    """Each part says what repeats it, with its seed."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/nightly", tmp_path / ".ci")
    said = 'echo "$0 ${GPU_PROFILE_SEED:-} ${GPU_PROFILE_SLOW:-} $*"'
    for name, code in {"inv": 4, ".ci/pythons": 0, ".ci/run": 1}.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{said}\nexit {code}\n")
        (tmp_path / name).chmod(0o755)
    words = ("bash", str(tmp_path / ".ci/nightly"), "7")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    drawn = "check -- -m drawn tests/unit tests/fuzz"
    assert done.returncode == 1
    assert [line.split() for line in done.stdout.splitlines() if line and line[:2] != "=="] == [
        ["./inv", "7", *drawn.split()],
        [".ci/pythons"],
        [".ci/run", "1"],
    ]
    assert done.stderr.splitlines() == [
        f"failed; to repeat it: GPU_PROFILE_SEED=7 ./inv {drawn}",
        "failed; to repeat it: GPU_PROFILE_SLOW=1 .ci/run",
    ]


def test_the_cases_of_a_function_are_in_one_share_and_each_is_in_some() -> None:
    functions = [f"tests/unit/test_{letter}.py::test_x" for letter in "abcdefgh"]
    shares = [find_share(name, 2) for name in functions]
    assert set(shares) == {1, 2}
    assert [find_share(f"{name}[ssh-1]", 2) for name in functions] == shares
    assert {find_share(name, 1) for name in functions} == {1}
