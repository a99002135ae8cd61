"""Allowing GPU counters: a file of modprobe, written and removed with root's rights."""

from pathlib import Path

import pytest

from gpu_profile.command import Result
from gpu_profile.doctor.gpu_counters import (
    LINE,
    allow_counters,
    is_root,
    restrict_counters,
)
from gpu_profile.errors import ToolError
from gpu_profile.process import drive, plan
from gpu_profile.remote_host import RemoteHost

HERE, THERE = RemoteHost(), RemoteHost(host="gpu")


def test_a_user_writes_the_file_with_sudo_and_root_without() -> None:
    (allow,) = plan(allow_counters(THERE, root=False))
    assert allow.argv[-1] == "sudo --non-interactive tee -- /etc/modprobe.d/gpu-profile.conf"
    assert allow.stdin == "options nvidia NVreg_RestrictProfilingToAdminUsers=0\n"
    (restrict,) = plan(restrict_counters(HERE, root=True))
    assert restrict.argv == ("rm", "-f", "--", "/etc/modprobe.d/gpu-profile.conf")


def test_the_file_is_there_and_gone_again(tmp_path: Path) -> None:
    file = tmp_path / "gpu-profile.conf"
    drive(allow_counters(HERE, root=True, file=str(file)))
    assert file.read_text() == LINE
    for _ in range(2):  # the second time there is none, which is no error
        drive(restrict_counters(HERE, root=True, file=str(file)))
        assert not file.exists()


@pytest.mark.parametrize(("place", "name"), [(HERE, "this machine"), (THERE, "gpu")])
@pytest.mark.parametrize(("uid", "root"), [("0\n", True), ("1000\n", False)])
def test_who_is_root_there(place: RemoteHost, name: str, uid: str, root: bool) -> None:
    steps = is_root(place)
    assert next(steps).argv[-1].endswith("-u")
    with pytest.raises(StopIteration) as answer:
        steps.send(Result(returncode=0, stdout=uid))
    assert answer.value.value is root
    steps = is_root(place)
    next(steps)
    with pytest.raises(ToolError, match=f"asking {name}: "):
        steps.send(Result(returncode=255, stderr="Connection refused"))


@pytest.mark.parametrize(
    ("stderr", "hint"),
    [
        ("sudo: a password is required", "Run it as root there: sudo asks for a password"),
        ("Permission denied (publickey)", "Make `ssh gpu` work first"),
        ("tee: /etc/modprobe.d: Read-only file system", "Read-only file system"),
    ],
)
def test_a_file_that_cannot_be_written_says_why(stderr: str, hint: str) -> None:
    steps = allow_counters(THERE, root=False, file="/etc/x.conf")
    next(steps)
    with pytest.raises(ToolError) as refused:
        steps.send(Result(returncode=1, stderr=stderr))
    assert str(refused.value).startswith(f"writing /etc/x.conf: {stderr}")
    assert hint in str(refused.value)
