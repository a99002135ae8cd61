"""What `doctor` says of a Docker Engine, and when a build is refused."""

import dataclasses

import pytest

from gpu_profile.doctor.engine import check_engine, require_engine
from gpu_profile.engine.probe import Engine
from gpu_profile.errors import ToolError

SOCKET = "unix:///var/run/docker.sock"
OWN = "/run/user/1000/docker.sock"
REFUSED = "permission denied while trying to connect to the Docker daemon socket at " + SOCKET
UNREACHABLE = "Cannot connect to the Docker daemon"
GOOD = Engine(client="28.2.2", server="26.1.5+dfsg1", buildx="0.13.1", root="/var/lib/docker")
DENIED = Engine(client="28.2.2", buildx="0.13.1", problem=REFUSED, endpoint=SOCKET)
AWAY = Engine(client="28.2.2", buildx="0.13.1", problem=UNREACHABLE)


def explain_refusal(engine: Engine) -> str:
    """The error of a build with this engine."""
    with pytest.raises(ToolError) as refused:
        require_engine(engine)
    assert refused.value.exit_code == 3
    return str(refused.value)


def test_a_good_engine_is_enough() -> None:
    require_engine(GOOD)
    checks = {check.name: check for check in check_engine(GOOD)}
    required = {name for name, check in checks.items() if check.is_required}
    assert required == {"docker client", "docker engine", "docker buildx"}
    assert all(checks[name].ok for name in required)
    assert (checks["docker GPUs"].ok, checks["docker GPUs"].result) == (
        *(False, "no nvidia runtime: jobs run on CPUs"),
    )


@pytest.mark.parametrize(
    ("name", "engine"),
    {
        "docker client": dataclasses.replace(GOOD, client=""),
        "docker engine": dataclasses.replace(GOOD, server=""),
        "docker buildx": dataclasses.replace(GOOD, buildx=""),
    }.items(),
)
def test_a_part_that_is_missing_is_named_with_how_to_get_it(name: str, engine: Engine) -> None:
    said = explain_refusal(engine)
    assert said.startswith(f"{name}: not there. `invoke doctor --fix` installs and starts it")


@pytest.mark.parametrize(("free", "enough"), [(15.0, True), (14.9, False)])
def test_little_room_is_told_and_refuses_no_build(free: float, enough: bool) -> None:
    engine = dataclasses.replace(GOOD, free_gib=free)
    (check,) = (check for check in check_engine(engine) if check.name == "docker disk space")
    assert (check.ok, check.result) == (
        enough,
        f"{free:.0f} GiB free in {GOOD.root}",
    )
    require_engine(engine)


def test_nothing_is_said_of_the_machine_of_an_engine_that_does_not_answer() -> None:
    names = [check.name for check in check_engine(DENIED)]
    assert names == ["docker client", "docker engine", "docker buildx"]


@pytest.mark.parametrize(
    ("server", "enough"),
    [("26.1.5+dfsg1", True), ("23.0.0", True), ("20.10.24", False), ("", False), ("dev", False)],
)
def test_how_old_an_engine_may_be(server: str, enough: bool) -> None:
    assert check_engine(dataclasses.replace(GOOD, server=server))[1].ok == enough


def test_an_engine_that_is_too_old_is_not_called_missing() -> None:
    said = explain_refusal(dataclasses.replace(GOOD, server="20.10.24"))
    assert said == "docker engine: 20.10.24. Docker Engine 23 or newer is needed."


def test_an_engine_that_refuses_the_user_is_there() -> None:
    said = explain_refusal(DENIED)
    assert said.startswith("docker engine: permission denied at /var/run/docker.sock. ")
    assert "sudo usermod -aG docker $USER" in said
    assert "sudo ./inv" in said


def test_the_installed_command_is_named_with_its_path_after_sudo(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.argv", ["/home/me/.local/bin/gpu-profile", "doctor"])
    assert "`sudo $(command -v gpu-profile) …`" in explain_refusal(DENIED)


def test_a_question_of_docker_ends_its_sentence() -> None:
    problem = f"{UNREACHABLE}. Is the docker daemon running?"
    away = dataclasses.replace(AWAY, problem=problem, endpoint="tcp://10.0.0.7:2376")
    assert "running? No engine answers at tcp://10.0.0.7" in explain_refusal(away)


@pytest.mark.parametrize("endpoint", ["tcp://10.0.0.7:2376", "ssh://build@farm", "unix:///x.sock"])
def test_an_engine_at_another_address_is_named_with_the_address(endpoint: str) -> None:
    said = explain_refusal(dataclasses.replace(AWAY, endpoint=endpoint))
    assert f"No engine answers at {endpoint}" in said
    assert "unset DOCKER_HOST" in said


@pytest.mark.parametrize("problem", [REFUSED, UNREACHABLE])
def test_a_rootless_engine_is_named(problem: str) -> None:
    other = dataclasses.replace(DENIED, problem=problem, rootless_socket=OWN)
    assert f"export DOCKER_HOST=unix://{OWN}" in explain_refusal(other)
    used = dataclasses.replace(GOOD, endpoint=f"unix://{OWN}", rootless=True)
    assert check_engine(used)[1].result == "26.1.5+dfsg1, rootless"
