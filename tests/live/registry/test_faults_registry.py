"""What registries and networks refuse: one line, exit 7, and nothing half-recorded."""

import subprocess
from collections.abc import Callable

import pytest

from gpu_profile.engine.api import LayerEvent
from gpu_profile.errors import RegistryError
from gpu_profile.registry import address, push
from tests.live.registry.conftest import Refused, Registry, stored_digest

pytestmark = [pytest.mark.registry, pytest.mark.docker]


def test_no_such_image(where: address.Registry, real_registry: Registry, refused: Refused) -> None:
    line = refused(real_registry.ref("never-built"), where)
    assert line.endswith("/never-built:v1 to push. `invoke build` makes it.")


def test_expired_token_at_the_registry(
    where: address.Registry,
    real_registry: Registry,
    make_image: Callable[..., None],
    refused: Refused,
) -> None:
    """The registry no longer takes the token that the API gives."""
    real_registry.accept("AWS", "another password")
    ref = real_registry.ref("gpu-profile")
    make_image(ref)
    line = refused(ref, where)
    assert line.startswith(f"{real_registry.address}: it does not accept the credentials")


def test_registry_is_down(
    where: address.Registry,
    real_registry: Registry,
    make_image: Callable[..., None],
    refused: Refused,
) -> None:
    ref = real_registry.ref("gpu-profile")
    make_image(ref)
    real_registry.stop()
    tries: list[str] = []
    line = refused(ref, where, lambda event: tries.append(event.status))
    assert line.startswith(f"{real_registry.address}: it cannot be reached (")
    assert [status for status in tries if "trying again" in status] == [
        status for status in tries if status.endswith(("in 1 s", "in 2 s", "in 4 s", "in 8 s"))
    ]
    assert sum("trying again" in status for status in tries) == 4


def _kill_once_uploading(server: Registry) -> Callable[[LayerEvent], None]:
    def show(event: LayerEvent) -> None:
        if event.status == "Pushing" and event.current > 1 << 20:
            server.stop()

    return show


@pytest.mark.slow
def test_registry_goes_down_in_the_middle_of_a_push(
    where: address.Registry,
    real_registry: Registry,
    make_image: Callable[..., None],
    refused: Refused,
) -> None:
    """Killed by its id once bytes have flown; the next push, to the registry restarted, ends."""
    ref = real_registry.ref("gpu-profile")
    make_image(ref, megabytes=48)
    line = refused(ref, where, _kill_once_uploading(real_registry))
    assert line.startswith(f"{real_registry.address}: it cannot be reached (")
    real_registry.start()
    assert stored_digest(real_registry, "gpu-profile") == ""
    pushed = push.push_image(ref, where, show=print)
    assert stored_digest(real_registry, "gpu-profile") == pushed.digest


def test_a_push_goes_on_when_the_registry_comes_back(
    where: address.Registry, real_registry: Registry, make_image: Callable[..., None]
) -> None:
    ref = real_registry.ref("gpu-profile")
    make_image(ref)
    real_registry.stop()
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            real_registry.start()

    pushed = push.push_image(ref, where, show=print, upload=push.Upload(sleep=sleep))
    assert waits == [1.0, 2.0]
    assert stored_digest(real_registry, "gpu-profile") == pushed.digest


def test_pull_of_what_is_not_there(where: address.Registry, real_registry: Registry) -> None:
    with pytest.raises(RegistryError, match=r"it has no such (image|repository)"):
        push.pull_image(real_registry.ref("nothing"), where, show=print)


def test_the_image_stays_as_it_was(
    where: address.Registry, real_registry: Registry, make_image: Callable[..., None]
) -> None:
    """A push that fails leaves the local image and its names alone."""
    ref = real_registry.ref("gpu-profile")
    make_image(ref)
    words = ("docker", "image", "inspect", "--format", "{{.Id}} {{.RepoDigests}}", str(ref))
    before = subprocess.run(words, capture_output=True, check=True).stdout
    real_registry.accept("AWS", "another password")
    with pytest.raises(RegistryError):
        push.push_image(ref, where, show=print)
    assert subprocess.run(words, capture_output=True, check=True).stdout == before
