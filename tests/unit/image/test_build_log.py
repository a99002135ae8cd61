"""Which step failed and what to do, from what `docker buildx build` shows."""

from collections.abc import Callable

import pytest

from gpu_profile.image.build_log import BuildLog

HEAD = """\
#7 [nsys 1/1] RUN     --mount=type=tmpfs,target=/tmp     ["python3", "/mnt/stage/stage.py"]
#9 [torch 1/1] RUN     --mount=type=tmpfs,target=/tmp     ["python3", "/mnt/stage/stage.py"]
#9 1.219 collecting
"""
TAIL = """\
------
 > [nsys 1/1] RUN     --mount=type=tmpfs,target=/tmp     ["python3", "/mnt/stage/stage.py"]:
2.100 first
2.200 {said}
------
Dockerfile:12
--------------------
  12 | >>> RUN \\
--------------------
ERROR: failed to solve: process "python3 …" did not complete successfully: exit code: 1
"""


def _read(text: str) -> BuildLog:
    log = BuildLog()
    for line in text.split("\n"):
        log.feed(line)
    return log


def _drawn(text: str) -> str:
    """As on a terminal: lines that end there, and colours."""
    return text.replace("\n", "\r\n").replace("------\r", "\x1b[0m\x1b[?25h------\r", 1)


@pytest.mark.parametrize("shown", [str, _drawn])
@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("nsys: checksum mismatch: https://x/y has sha256 1, expected 2", "_SHA256"),
        ("write /opt/x: no space left on device", "docker system prune"),
        ("curl: (60) SSL certificate problem: self-signed certificate in chain", "CA_BUNDLE"),
        ("nsys: cannot fetch https://x/y", "http_proxy"),
        ("E: Unable to locate package nsight", "setup.d/10-nsys.sh"),
        ("failed to resolve source metadata for x/buildkit-syft-scanner:1", "invoke sbom"),
    ],
)
def test_a_script_that_fails(said: str, advice: str, shown: Callable[[str], str]) -> None:
    log = _read(shown(HEAD + TAIL.format(said=said)))
    failure = log.failure(1)
    assert (log.step, log.last_lines) == ("nsys", ("first", said))
    assert said in failure.what
    assert failure.what.startswith("The build failed in nsys: ")
    assert advice in failure.hint
    assert failure.exit_code == 4


def test_a_base_image_out_of_reach() -> None:
    log = _read(
        "------\n > [internal] load metadata for example.com/none:1:\n------\n"
        "ERROR: failed to solve: example.com/none:1: failed to resolve source metadata for "
        "example.com/none:1: no such host\n"
    )
    assert "BASE_IMAGE" in log.failure(1).hint


@pytest.mark.parametrize(
    "said",
    [
        "Attestation is not supported for the docker driver.",
        "Cache export is not supported for the docker driver.",
    ],
)
def test_what_the_default_builder_cannot_do(said: str) -> None:
    assert "docker buildx create" in _read(f"ERROR: {said}\n").failure(1).hint


def test_an_engine_that_says_nothing() -> None:
    assert "exit code 137" in str(BuildLog().failure(137))
