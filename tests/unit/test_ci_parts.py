"""The parts of a run of CI: output apart, the exit code of the one that failed, the last lines."""

import signal
import subprocess

from gpu_profile.settings.places import ROOT

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
    assert "first\nfailed: test_a: AssertionError\nlast\n" in rest
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
