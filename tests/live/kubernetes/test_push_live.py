"""From the engine to two nodes by the project's own verbs: `push`, then `profile` by its digest."""

import json
from collections.abc import Iterator

import pytest

from gpu_profile import process
from gpu_profile.command import make_command
from tests.live.kubernetes.conftest import Cluster, must

pytestmark = [pytest.mark.kubernetes, pytest.mark.docker, pytest.mark.image, pytest.mark.registry]


@pytest.fixture
def registry_settings(cluster: Cluster, image: str, registry_address: str) -> Iterator[str]:
    """The image under test as the settings name it: its address in the registry, with a tag."""
    wanted = f"{registry_address}/team/gpu-profile:pushed"
    must(process.run(make_command("docker", "tag", image, wanted)))
    with (cluster.directory / ".env").open("a") as file:
        file.write(f"REGISTRY={registry_address}\nIMAGE=team/gpu-profile\nVERSION=pushed\n")
    yield wanted
    process.run(make_command("docker", "rmi", wanted))


def test_push_then_profile_by_the_digest_that_it_recorded(
    cluster: Cluster, registry_settings: str
) -> None:
    pushed = must(cluster.invoke("push")).strip().splitlines()[-1]
    digest = pushed.rpartition("@")[2]
    assert digest.startswith("sha256:")
    records = json.loads((cluster.directory / ".gpu-profile" / "images.json").read_text())
    assert records == {registry_settings: digest}
    marked = "import nvtx, time\nwith nvtx.annotate('step'):\n    time.sleep(0.2)"
    where = ("--on=mpijob", "--nodes=2", "--gpus=0")
    done = cluster.invoke("profile", *where, "--", "python3", "-c", marked)
    assert done.returncode == 0, done.stderr
    record = cluster.record()
    assert record["image"].endswith(f"/team/gpu-profile@{digest}")
    assert len({facts["host"] for facts in record["reports"]}) == 2
    assert "nvtx_sum" in done.stdout
