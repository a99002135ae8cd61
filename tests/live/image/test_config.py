"""The image's configuration: what starts first, labels, and nothing that the build alone knew."""

import json
import time
from typing import Any

import pytest

from gpu_profile import process
from gpu_profile.command import make_command
from gpu_profile.image.dockerfile import LABEL_PREFIX
from tests.image.checks import in_container


@pytest.fixture(scope="module")
def config(image: str) -> dict[str, Any]:
    told = process.run(make_command("docker", "image", "inspect", image))
    image_config: dict[str, Any] = json.loads(told.stdout)[0]["Config"]
    return image_config


def test_the_first_process_is_no_shell(config: dict[str, Any]) -> None:
    assert config["Entrypoint"] == ["/usr/bin/tini", "-g", "--"]
    assert config["Cmd"] == ["/startup.sh"]


def test_labels_name_the_inputs(config: dict[str, Any]) -> None:
    labels = config["Labels"]
    assert len(labels[f"{LABEL_PREFIX}.inputs"]) == 64
    assert labels["org.opencontainers.image.base.name"]
    assert labels[f"{LABEL_PREFIX}.nsys-source"] in {"nvidia", "debian", "base"}


def test_nothing_of_the_build_is_in_the_environment(config: dict[str, Any]) -> None:
    names = {line.partition("=")[0].lower() for line in config["Env"]}
    assert not names & {"http_proxy", "https_proxy", "no_proxy", "ssl_cert_file", "pip_cert"}
    assert not {name for name in names if name.startswith(("nccl_debug", "ld_preload"))}


def test_a_container_ends_at_once_when_told_to(image: str) -> None:
    started = process.run(make_command("docker", "run", "--detach", image))
    container = started.stdout.strip()
    try:
        begin = time.monotonic()
        process.run(make_command("docker", "stop", "--time=120", container))
        assert time.monotonic() - begin < 100
    finally:
        process.run(make_command("docker", "rm", "--force", container))


def test_every_process_of_the_group_gets_the_signal(image: str) -> None:
    script = "trap 'echo told; exit 3' TERM; sleep 30 & kill -TERM 1; wait"
    result = in_container(image, "bash", "-c", script)
    assert (result.returncode, "told" in result.stdout) == (3, True)
