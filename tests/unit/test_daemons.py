"""tests/live/daemons.sh: an id in a file is a program of ours only while that one runs."""

import subprocess
from pathlib import Path

import pytest

from gpu_profile.settings.places import ROOT

DAEMONS = ROOT / "tests/live/daemons.sh"


def run_functions(directory: Path, lines: str) -> str:
    """Return what lines of a script that has sourced the functions print."""
    script = f"set -euo pipefail; source '{DAEMONS}'; {lines}"
    done = subprocess.run(
        ("bash", "-c", script), cwd=directory, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="finds a process in /proc")
def test_a_daemon_is_found_and_ended_by_its_own_id_only(tmp_path: Path) -> None:
    lines = """
    launch_daemon a.id a.out sh -c 'echo up; exec sleep 600'
    until [[ -s a.out ]]; do sleep 0.01; done
    [[ $(find_daemon a.id a.out) == $(cat a.id) ]] && echo found
    end_daemon a.id a.out
    while find_daemon a.id a.out >/dev/null; do sleep 0.01; done
    end_daemon a.id a.out
    end_daemon none.id none.out
    echo ended
    """
    assert run_functions(tmp_path, lines).splitlines() == ["found", "ended"]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="finds a process in /proc")
def test_another_program_of_a_stale_id_is_neither_found_nor_ended(tmp_path: Path) -> None:
    """After kill -9 of everything the kernel gives an id to another program."""
    (tmp_path / "a.out").write_text("of the daemon that was killed\n")
    with subprocess.Popen(("cat",), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        (tmp_path / "a.id").write_text(f"{other.pid}\n")
        lines = "end_daemon a.id a.out KILL; find_daemon a.id a.out || echo none"
        assert run_functions(tmp_path, lines) == "none"
        assert other.communicate(b"still here", timeout=60)[0] == b"still here"
    assert other.returncode == 0
