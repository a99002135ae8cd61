"""The directory that brings nsys to other images is checked and copied whole."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpu_profile.launchers.agent.job_directory import AGENT
from tests.further import keep_first

SCRIPT = AGENT / "carried.py"


def call(verb: str, *paths: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """The script, sent to `python3 -` as to another machine."""
    return subprocess.run(
        [sys.executable, "-", verb, *map(str, paths)],
        input=SCRIPT.read_text(),
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def write_program(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


@pytest.fixture
def carried(tmp_path: Path) -> Path:
    """A directory as our image has it, with shell scripts for programs."""
    home = tmp_path / "carried"
    target, host = (home / "carrier" / "nsight-systems" / n for n in ("target-x", "host-x"))
    for folder, name in ((target, "nsys"), (target, "nsys-launcher"), (host, "QdstrmImporter")):
        write_program(folder / name, "exit 0")
    (home / "carrier" / "bin").mkdir()
    (home / "carrier" / "bin" / "nsys").symlink_to("../nsight-systems/target-x/nsys")
    (home / "agent").mkdir()
    (home / "agent" / "job.py").write_text("print()\n")
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(home / 'carrier')}\n"
        for path in sorted((home / "carrier" / "nsight-systems").rglob("*"))
        if path.is_file()
    ]
    (home / "carrier" / "files").write_text("".join(lines))
    (home / "carrier" / "facts").write_text("architecture=x86_64\nglibc=2.29\nnsys=2023.4.4\n")
    return home


def test_its_digest_is_of_the_carrier_and_of_the_agent(carried: Path) -> None:
    facts = json.loads(call("describe", carried).stdout)
    assert facts["glibc"] == "2.29"
    assert json.loads(call("describe", carried).stdout) == facts
    (carried / "agent" / "job.py").write_text("print(1)\n")
    assert json.loads(call("describe", carried).stdout)["digest"] != facts["digest"]
    nothing = call("describe", carried / "agent")
    assert (nothing.returncode, "holds no carrier" in nothing.stderr) == (3, True)


FAULTS = {
    "a damaged file": ("printf x >>{target}/nsys-launcher", "nsys-launcher is damaged or missing"),
    "a lost file": ("rm {target}/nsys", "nsys is damaged or missing"),
    "a library": (
        "echo 'x: error while loading shared libraries: libgcc_s.so.1: cannot open' >&2; exit 127",
        "nsys-launcher needs libgcc_s.so.1, which is not here",
    ),
    "glibc": (
        'echo "x: libc.so.6: version \\`GLIBC_2.29\' not found (required by x)" >&2; exit 1',
        "nsys-launcher needs GLIBC_2.29, which is not here",
    ),
}


@pytest.mark.parametrize(("fault", "said"), keep_first(2, FAULTS.values()), ids=FAULTS.keys())
def test_what_keeps_it_from_working_is_one_line(fault: str, said: str, carried: Path) -> None:
    target = carried / "carrier" / "nsight-systems" / "target-x"
    assert call("check", carried).returncode == 0
    if "{target}" in fault:
        subprocess.run(["sh", "-c", fault.format(target=target)], check=True)
    else:
        write_program(target / "nsys-launcher", fault)
        files = carried / "carrier" / "files"
        kept = [line for line in files.read_text().splitlines() if "nsys-launcher" not in line]
        files.write_text("\n".join(kept) + "\n")
    refused = call("check", carried)
    assert refused.returncode == 3
    assert said in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_a_temporary_folder_that_cannot_be_written_is_named(carried: Path, tmp_path: Path) -> None:
    refused = call("check", carried, TMPDIR=str(tmp_path / "none"))
    assert refused.returncode == 3
    assert f"nsys records in {tmp_path / 'none'}, which cannot be written" in refused.stderr


def test_a_path_that_ld_preload_cannot_hold_is_refused(carried: Path, tmp_path: Path) -> None:
    refused = call("check", carried.rename(tmp_path / "my runs"))
    assert (refused.returncode, "has a space or colon" in refused.stderr) == (3, True)


@pytest.mark.further
def test_a_copy_has_the_same_digest(carried: Path, tmp_path: Path) -> None:
    to = tmp_path / "volume"
    to.mkdir()
    assert call("copy", carried, to).returncode == 0
    assert call("check", to).returncode == 0
    assert call("describe", to).stdout == call("describe", carried).stdout
    assert (to / "carrier" / "bin" / "nsys").is_symlink()


def test_it_leaves_as_much_room_as_a_recording_needs() -> None:
    room = "_LEAST_ROOM = 16 << 20"
    assert room in SCRIPT.read_text()
    assert room.lstrip("_") in (AGENT / "room_watch.py").read_text()
