"""The commands that install and start an engine: which, for whom, and where none helps."""

import dataclasses
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_profile.command import Command, Result, make_command
from gpu_profile.doctor import fix_engine
from gpu_profile.engine.distribution import Distribution
from gpu_profile.engine.probe import Engine
from gpu_profile.errors import ToolError
from gpu_profile.process import run

BOOKWORM = Distribution(id="debian", codename="bookworm", mirror="http://mirror.example/debian")
SOCKET = "unix:///var/run/docker.sock"
REFUSED = "permission denied while trying to connect to the Docker daemon socket at " + SOCKET
CLIENT = Engine(client="28.2.2", buildx="0.13.1", problem="Cannot connect", endpoint=SOCKET)
OWN = "/run/user/1000/docker.sock"
LEFT_ALONE = {
    "it answers": dataclasses.replace(CLIENT, server="26.1.5+dfsg1"),
    "its socket refuses the user": dataclasses.replace(CLIENT, problem=REFUSED),
    "it is at another address": dataclasses.replace(CLIENT, endpoint="tcp://10.0.0.7:2376"),
    "it is on another host": dataclasses.replace(CLIENT, endpoint="ssh://build@farm"),
    "its socket is elsewhere": dataclasses.replace(CLIENT, endpoint="unix:///x.sock"),
    "it is this user's own": dataclasses.replace(CLIENT, rootless_socket=OWN),
}


def _planned(engine: Engine, *results: Result) -> tuple[Command, ...]:
    steps = fix_engine.plan_fix(engine)
    answers = iter(results)
    try:
        next(steps)
        while True:
            steps.send(next(answers))
    except StopIteration as stop:
        planned: tuple[Command, ...] = stop.value
        return planned


@pytest.mark.parametrize("engine", LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_an_engine_that_no_package_helps_is_left_alone(engine: Engine) -> None:
    assert _planned(engine) == ()


def test_an_engine_that_is_too_old_is_installed_and_not_started() -> None:
    old = dataclasses.replace(CLIENT, server="20.10.24")
    there = Result(returncode=0, stdout="ID=debian\nVERSION_CODENAME=bookworm\n")
    mirror = Result(returncode=0, stdout="Debian http://m.example/debian\n")
    planned = _planned(old, Result(returncode=1), there, mirror)
    assert [command.argv[0] for command in planned] == ["tee", "tee", "apt-get", "apt-get"]


def test_a_user_who_is_not_root_installs_with_sudo() -> None:
    planned = fix_engine.plan_install(BOOKWORM)
    assert fix_engine.for_user(planned, is_root=True, has_sudo=False) == planned
    commands = fix_engine.for_user(planned, is_root=False, has_sudo=True)
    source, _, update, install = commands
    assert source.argv[:2] == ("sudo", "tee")
    assert "mirror.example" in source.stdin
    assert update.argv == ("sudo", "apt-get", "update")
    assert install.argv[:5] == (
        *("sudo", "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install"),
    )


def test_without_sudo_one_line_lists_the_commands_for_somebody_else() -> None:
    planned = fix_engine.plan_install(BOOKWORM)
    with pytest.raises(ToolError) as refused:
        fix_engine.for_user(planned, is_root=False, has_sudo=False)
    said = str(refused.value)
    assert "\n" not in said
    assert "apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y" in said
    assert refused.value.exit_code == 3


def test_the_commands_as_one_line_write_the_same_files(tmp_path: Path) -> None:
    text = "Types: deb\nURIs: http://m.example/100%25\\n\n"
    files = [str(tmp_path / name) for name in ("a", "b")]
    line = fix_engine.one_line([make_command("tee", file, stdin=text) for file in files])
    assert "\n" not in line
    assert run(make_command("sh", "-c", " ".join(line.split()))).returncode == 0
    assert [Path(file).read_text() for file in files] == [text, text]


def test_bookworm_takes_the_engine_of_trixie_pinned_low() -> None:
    commands = fix_engine.plan_install(BOOKWORM)
    source, pin, update, install = commands
    assert "http://mirror.example/debian" in source.stdin
    assert "Suites: trixie" in source.stdin
    assert "Pin-Priority: 100" in pin.stdin
    assert update.argv == ("apt-get", "update")
    assert install.argv[4:8] == (
        "docker.io/trixie",
        "docker-buildx/trixie",
        "docker-cli/trixie",
        "containerd/trixie",
    )
    assert "--no-install-recommends" in install.argv


@pytest.mark.parametrize(("name", "codename"), [("ubuntu", "noble"), ("debian", "trixie")])
def test_others_take_their_own(name: str, codename: str) -> None:
    update, install = fix_engine.plan_install(
        Distribution(id=name, codename=codename, mirror="http://m.example")
    )
    assert update.argv == ("apt-get", "update")
    assert {"docker.io", "docker-buildx", "mmdebstrap", "uidmap"} <= set(install.argv)
    assert not any("/" in word for word in install.argv)


def test_an_engine_that_is_there_is_only_started() -> None:
    assert _planned(CLIENT, Result(returncode=0)) == fix_engine.plan_start()


@pytest.mark.skipif(Path("/run/systemd/system").is_dir(), reason="systemd starts the engine here")
def test_the_log_of_an_engine_is_a_new_file_that_follows_no_link(
    tmp_path: Path, fake_tool: Callable[..., object]
) -> None:
    fake_tool("dockerd", "echo listening")
    victim, log = tmp_path / "victim", tmp_path / "dockerd.log"
    victim.write_text("own")
    log.symlink_to(victim)
    start, _ = fix_engine.plan_start(str(log), state=str(tmp_path))
    for _ in range(2):  # the second start replaces the log of the first
        assert run(start).returncode == 0
        run(make_command("sh", "-c", f"until [ -s {log} ]; do sleep 0.01; done"), timeout_s=60)
        assert log.read_text() == "listening\n"
    assert not log.is_symlink()
    assert victim.read_text() == "own"


@pytest.mark.skipif(Path("/run/systemd/system").is_dir(), reason="systemd starts the engine here")
@pytest.mark.parametrize(("program", "stays"), [("dockerd", True), ("other", False)])
def test_a_process_id_of_another_program_does_not_keep_the_engine_from_its_start(
    tmp_path: Path, fake_tool: Callable[..., object], *, program: str, stays: bool
) -> None:
    fake_tool("dockerd", "echo listening")
    # The kernel names a process of a script after the script's file.
    script = tmp_path / program
    script.write_text("#!/bin/sh\nread -r line\n")
    script.chmod(0o755)
    pid_file = tmp_path / "docker.pid"
    with subprocess.Popen([script], stdin=subprocess.PIPE) as process:
        pid_file.write_text(str(process.pid))
        start, _ = fix_engine.plan_start(str(tmp_path / "dockerd.log"), state=str(tmp_path))
        assert run(start).returncode == 0
        assert pid_file.exists() == stays
        process.communicate(b"\n")


def test_what_is_missing_is_installed_and_started() -> None:
    planned = _planned(
        Engine(client="28.2.2", problem="Cannot connect"),
        Result(returncode=1),
        Result(returncode=0, stdout="ID=ubuntu\nVERSION_CODENAME=noble\n"),
        Result(returncode=0, stdout="Ubuntu http://m.example/ubuntu\n"),
    )
    assert [command.argv[0] for command in planned] == ["apt-get", "apt-get", "sh", "sh"]


def test_an_installation_that_fails_says_why() -> None:
    steps = fix_engine.run_fix(fix_engine.plan_install(Distribution(id="ubuntu", codename="noble")))
    next(steps)
    with pytest.raises(ToolError, match="are you root"):
        steps.send(Result(returncode=100, stderr="E: are you root?"))


def test_no_command_asks_for_a_terminal() -> None:
    for each in fix_engine.plan_install(BOOKWORM):
        assert "install" not in each.argv or "-y" in each.argv
