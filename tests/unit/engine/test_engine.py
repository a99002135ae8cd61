"""Finding a Docker Engine, and the commands that Debian and Ubuntu get one by."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_profile.command import Command, Result, Steps, make_command
from gpu_profile.doctor import engine as engine_checks
from gpu_profile.doctor import fix_engine
from gpu_profile.engine import probe
from gpu_profile.engine.distribution import (
    Distribution,
    find_security_mirror,
    first_mirror,
    probe_distribution,
)
from gpu_profile.engine.probe import Engine
from gpu_profile.errors import ToolError
from gpu_profile.process import run

GOOD = Engine(client="28.2.2", server="26.1.5+dfsg1", buildx="0.13.1", root="/var/lib/docker")
BOOKWORM = Distribution(id="debian", codename="bookworm", mirror="http://mirror.example/debian")


def _answers(steps: Steps[Engine], *results: Result) -> Engine:
    next(steps)
    for result in results:
        try:
            steps.send(result)
        except StopIteration as stop:
            found: Engine = stop.value
            return found
    raise AssertionError("more questions than answers")


def test_what_an_engine_says() -> None:
    version = {"Client": {"Version": "28.2.2"}, "Server": {"Version": "26.1.5+dfsg1"}}
    info = {"Runtimes": {"runc": {}, "nvidia": {}}, "DockerRootDir": "/data"}
    found = _answers(
        probe.probe_engine(),
        Result(returncode=0, stdout=json.dumps(version)),
        Result(returncode=0, stdout="github.com/docker/buildx v0.13.1 abc\n"),
        Result(returncode=0, stdout=json.dumps(info)),
        Result(returncode=0, stdout="unix:///var/run/docker.sock\n"),
        Result(returncode=0),
        Result(returncode=0, stdout="Filesystem …\n/dev/vda 100 50 52428800 53% /data\n"),
    )
    assert found == Engine(
        client="28.2.2",
        server="26.1.5+dfsg1",
        buildx="0.13.1",
        runtimes=("nvidia", "runc"),
        root="/data",
        free_gib=50.0,
        endpoint="unix:///var/run/docker.sock",
    )
    assert found.has_gpus


@pytest.mark.parametrize("words", ["", "null", "not json", "[]", '{"Server": null}'])
def test_no_engine(words: str) -> None:
    refused = Result(returncode=1, stdout=words, stderr="Cannot connect to the Docker daemon")
    found = _answers(probe.probe_engine(), *[refused] * 6)
    assert (found.server, found.problem) == ("", "Cannot connect to the Docker daemon")
    with pytest.raises(ToolError, match="doctor --fix"):
        engine_checks.require_engine(found)


@pytest.mark.parametrize(
    ("server", "enough"),
    [("26.1.5+dfsg1", True), ("23.0.0", True), ("20.10.24", False), ("", False), ("dev", False)],
)
def test_how_old_an_engine_may_be(server: str, enough: bool) -> None:
    found = Engine(client="28", server=server, buildx="0.13", root="/")
    assert engine_checks.check_engine(found)[1].ok == enough


def test_a_good_engine_is_left_alone() -> None:
    engine_checks.require_engine(GOOD)
    assert _planned(GOOD) == ()


def _planned(found: Engine, *results: Result) -> tuple[Command, ...]:
    steps = fix_engine.plan_fix(found)
    answers = iter(results)
    try:
        next(steps)
        while True:
            steps.send(next(answers))
    except StopIteration as stop:
        planned: tuple[Command, ...] = stop.value
        return planned


SOCKET = "unix:///var/run/docker.sock"
REFUSED = "permission denied while trying to connect to the Docker daemon socket at " + SOCKET
DENIED = Engine(client="28.2.2", buildx="0.13.1", problem=REFUSED, endpoint=SOCKET)
UNREACHABLE = "Cannot connect to the Docker daemon"


def test_an_engine_that_refuses_the_user_is_there() -> None:
    assert _planned(DENIED) == ()
    with pytest.raises(ToolError) as refused:
        engine_checks.require_engine(DENIED)
    said = str(refused.value)
    assert said.startswith("docker engine: permission denied at /var/run/docker.sock. ")
    assert "sudo usermod -aG docker $USER" in said
    assert "sudo ./inv" in said
    assert refused.value.exit_code == 3


def test_the_installed_command_is_named_with_its_path_behind_sudo(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.argv", ["/home/me/.local/bin/gpu-profile", "doctor"])
    with pytest.raises(ToolError, match=r"`sudo \$\(command -v gpu-profile\) …`"):
        engine_checks.require_engine(DENIED)


def test_a_question_of_docker_ends_its_sentence() -> None:
    problem = f"{UNREACHABLE}. Is the docker daemon running?"
    found = Engine(client="28", buildx="0.13", problem=problem, endpoint="tcp://10.0.0.7:2376")
    with pytest.raises(ToolError, match=r"running\? No engine answers at tcp://10\.0\.0\.7"):
        engine_checks.require_engine(found)


@pytest.mark.parametrize("endpoint", ["tcp://10.0.0.7:2376", "ssh://build@farm", "unix:///x.sock"])
def test_an_engine_at_another_address_is_not_replaced_by_one_of_apt(endpoint: str) -> None:
    found = Engine(client="28", buildx="0.13", problem=UNREACHABLE, endpoint=endpoint)
    assert _planned(found) == ()
    with pytest.raises(ToolError, match=f"No engine answers at {endpoint}.*unset DOCKER_HOST"):
        engine_checks.require_engine(found)


def test_a_log_in_that_ssh_refuses_is_no_socket() -> None:
    problem = "error during connect: ssh: build@farm: Permission denied (publickey)"
    found = Engine(client="28", buildx="0.13", problem=problem, endpoint="ssh://build@farm")
    assert not found.refuses_user


@pytest.mark.parametrize("problem", [REFUSED, UNREACHABLE])
def test_a_rootless_engine_is_named(problem: str) -> None:
    own = "/run/user/1000/docker.sock"
    found = Engine(client="28", buildx="1", problem=problem, endpoint=SOCKET, rootless_socket=own)
    assert _planned(found) == ()
    with pytest.raises(ToolError, match=f"export DOCKER_HOST=unix://{own}"):
        engine_checks.require_engine(found)
    used = Engine(client="28", buildx="1", server="28.2.2", endpoint=f"unix://{own}", rootless=True)
    assert engine_checks.check_engine(used)[1].found == "28.2.2, rootless"


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
    stopped = Engine(client="28", buildx="0.13", problem="Cannot connect")
    assert _planned(stopped, Result(returncode=0)) == fix_engine.plan_start()


@pytest.mark.skipif(Path("/run/systemd/system").is_dir(), reason="systemd starts the engine here")
def test_the_log_of_an_engine_is_a_new_file_that_follows_no_link(
    tmp_path: Path, fake_tool: Callable[..., object]
) -> None:
    fake_tool("dockerd", "echo listening")
    victim, log = tmp_path / "victim", tmp_path / "dockerd.log"
    victim.write_text("own")
    log.symlink_to(victim)
    start, _ = fix_engine.plan_start(str(log))
    for _ in range(2):  # the second start replaces the log of the first
        assert run(start).returncode == 0
        run(make_command("sh", "-c", f"until [ -s {log} ]; do sleep 0.01; done"), timeout_s=60)
        assert log.read_text() == "listening\n"
    assert not log.is_symlink()
    assert victim.read_text() == "own"


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


def test_other_systems_are_told_what_to_install() -> None:
    steps = probe_distribution()
    next(steps)
    with pytest.raises(ToolError, match=r"Fedora Linux 42 is neither.*Install Docker Engine"):
        steps.send(Result(returncode=0, stdout='ID=fedora\nPRETTY_NAME="Fedora Linux 42"\n'))


def test_the_mirror_is_the_distributions_own() -> None:
    sources = (
        "NodeSource https://deb.example/node\n"
        "Debian http://m.example/debian-security/\n"
        "Debian http://m.example/debian/\n"
    )
    assert first_mirror("debian", sources) == "http://m.example/debian"
    assert first_mirror("ubuntu", sources) == ""
    assert find_security_mirror("debian", sources) == "http://m.example/debian-security"


def test_a_mirror_of_ubuntu_holds_its_security_suite() -> None:
    assert find_security_mirror("ubuntu", "Ubuntu http://m.example/ubuntu/\n") == (
        "http://m.example/ubuntu"
    )
    assert find_security_mirror("debian", "Debian http://m.example/debian/\n") == ""


def test_no_command_asks_for_a_terminal() -> None:
    for each in fix_engine.plan_install(BOOKWORM):
        assert "install" not in each.argv or "-y" in each.argv
