"""Finding a Docker Engine, and the archives of Debian and Ubuntu."""

import json

import pytest

from gpu_profile.command import Result, Steps
from gpu_profile.doctor.fix_engine import plan_install
from gpu_profile.engine import probe
from gpu_profile.engine.distribution import (
    APT_DOWNLOADS,
    Distribution,
    find_security_mirror,
    first_mirror,
    probe_distribution,
)
from gpu_profile.engine.probe import Engine
from gpu_profile.errors import ToolError


def _answers(steps: Steps[Engine], *results: Result) -> Engine:
    next(steps)
    for result in results:
        try:
            steps.send(result)
        except StopIteration as stop:
            engine: Engine = stop.value
            return engine
    raise AssertionError("more questions than answers")


def test_what_an_engine_says() -> None:
    version = {"Client": {"Version": "28.2.2"}, "Server": {"Version": "26.1.5+dfsg1"}}
    info = {"Runtimes": {"runc": {}, "nvidia": {}}, "DockerRootDir": "/data"}
    engine = _answers(
        probe.probe_engine(),
        Result(returncode=0, stdout=json.dumps(version)),
        Result(returncode=0, stdout="github.com/docker/buildx v0.13.1 abc\n"),
        Result(returncode=0, stdout=json.dumps(info)),
        Result(returncode=0, stdout="unix:///var/run/docker.sock\n"),
        Result(returncode=0),
        Result(returncode=0, stdout="Filesystem …\n/dev/vda 100 50 52428800 53% /data\n"),
    )
    assert engine == Engine(
        client="28.2.2",
        server="26.1.5+dfsg1",
        buildx="0.13.1",
        runtimes=("nvidia", "runc"),
        root="/data",
        free_gib=50.0,
        endpoint="unix:///var/run/docker.sock",
    )
    assert engine.has_gpus


@pytest.mark.parametrize("words", ["", "null", "not json", "[]", '{"Server": null}'])
def test_no_engine(words: str) -> None:
    refused = Result(returncode=1, stdout=words, stderr="Cannot connect to the Docker daemon")
    engine = _answers(probe.probe_engine(), *[refused] * 6)
    assert (engine.server, engine.problem) == ("", "Cannot connect to the Docker daemon")


def test_a_log_in_that_ssh_refuses_is_no_socket() -> None:
    problem = "error during connect: ssh: build@farm: Permission denied (publickey)"
    engine = Engine(client="28", buildx="0.13", problem=problem, endpoint="ssh://build@farm")
    assert not engine.refuses_user


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


def test_mirrors_are_known_before_apt_has_lists() -> None:
    downloads = (
        "'https://docker.example/linux/debian/dists/bookworm/InRelease' docker_InRelease 0 \n"
        "'http://m.example/debian/dists/bookworm/InRelease' m_InRelease 0 \n"
        "'http://m.example/debian/dists/bookworm-updates/InRelease' m-updates_InRelease 0 \n"
        "'http://m.example/debian-security/dists/bookworm-security/InRelease' s_InRelease 0 \n"
    )
    steps = probe_distribution()
    next(steps)
    steps.send(Result(returncode=0, stdout="ID=debian\nVERSION_CODENAME=bookworm\n"))
    assert steps.send(Result(returncode=0, stdout="")) == APT_DOWNLOADS
    with pytest.raises(StopIteration) as end:
        steps.send(Result(returncode=0, stdout=downloads))
    machine = end.value.value
    assert machine.mirror == "http://m.example/debian"
    assert machine.security_mirror == "http://m.example/debian-security"


def test_an_engine_of_another_release_needs_a_mirror() -> None:
    machine = Distribution(id="debian", codename="bookworm")
    with pytest.raises(ToolError, match=r"name no mirror of Debian.*apt-get update"):
        plan_install(machine)


def test_a_mirror_of_ubuntu_holds_its_security_suite() -> None:
    assert find_security_mirror("ubuntu", "Ubuntu http://m.example/ubuntu/\n") == (
        "http://m.example/ubuntu"
    )
    assert find_security_mirror("debian", "Debian http://m.example/debian/\n") == ""
