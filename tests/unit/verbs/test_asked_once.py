"""`profile` on Kubernetes asks a pod for the options of nsys once for each image and placement."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.further import keep_first
from tests.invoked import invoke, reporting_here

HELP = Path(__file__).parents[2].resolve() / "data" / "nsys-help" / "2023.4.txt"
FakeTool = Callable[..., Callable[[], list[list[str]]]]
KUBECTL = f"""case "$*" in
  *"config view"*) cat "$SERVER" ;;
  *"get pod "*) echo '{{"metadata": {{"name": "x"}}, "status": {{"phase": "Succeeded"}}}}' ;;
  *logs*) cat {HELP} ;;
  *create*) echo team/x uid ;;
esac"""
DIGEST = f"--image=registry.example/train@sha256:{'0' * 64}"
WORDS = ("profile", "--on=pytorchjob", "--gpus=0", "--detach", "--", "sh", "-c", "true")


@pytest.mark.parametrize(
    ("image", "server", "flags", "count"),
    keep_first(
        2,
        [
            (DIGEST, "https://first", (), 1),
            (DIGEST, "https://second", (), 2),
            (DIGEST, "https://first", ("--set=KUBE_NODE_SELECTOR=kubernetes.io/arch=arm64",), 2),
            (DIGEST, "https://first", ("--record=manual",), 2),
            (DIGEST, "", (), 2),
            ("--image=registry.example/train:1", "https://first", (), 2),
        ],
    ),
    ids=["the same", "cluster", "placement", "question", "unknown cluster", "tag"],
)
def test_a_second_profile_asks_a_pod_only_for_what_may_differ(
    tmp_path: Path,
    fake_tool: FakeTool,
    image: str,
    server: str,
    flags: tuple[str, ...],
    count: int,
) -> None:
    calls = fake_tool("kubectl", KUBECTL)
    reporting_here(tmp_path)
    file = tmp_path / "server"
    for address, more in (("https://first" if server else "", ()), (server, flags)):
        file.write_text(address)
        words = (WORDS[0], image, *more, *WORDS[1:])
        done = invoke(*words, directory=tmp_path, SERVER=str(file))
        assert done.returncode == 0, done.stderr
    assert sum("logs" in call for call in calls()) == count


def test_a_machine_without_a_place_for_the_answer_asks_each_time(
    tmp_path: Path, fake_tool: FakeTool
) -> None:
    calls = fake_tool("kubectl", KUBECTL)
    (reporting_here(tmp_path) / ".gpu-profile").touch()
    (tmp_path / "server").write_text("https://first")
    words = (WORDS[0], DIGEST, *WORDS[1:])
    for _ in range(2):
        done = invoke(*words, directory=tmp_path, SERVER=str(tmp_path / "server"))
        assert done.returncode == 0, done.stderr
    assert sum("logs" in call for call in calls()) == 2
