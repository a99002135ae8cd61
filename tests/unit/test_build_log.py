"""Which step failed and what to do, from the lines of `docker buildx build --progress=plain`."""

import pytest

from gpu_profile.build_log import BuildLog

HEAD = """\
#7 [nsys 1/1] RUN     --mount=type=tmpfs,target=/tmp     ["python3", "/mnt/stage/stage.py"]
#9 [torch 1/1] RUN     --mount=type=tmpfs,target=/tmp     ["python3", "/mnt/stage/stage.py"]
#9 1.219 collecting
"""
TAIL = """\
#7 ERROR: process "python3 /mnt/stage/stage.py nsys" did not complete successfully: exit code: 1
#9 CANCELED
ERROR: failed to solve: process "python3 …" did not complete successfully: exit code: 1
"""


def _read(text: str) -> BuildLog:
    log = BuildLog()
    for line in text.splitlines():
        log.feed(line)
    return log


@pytest.mark.parametrize(
    ("said", "advice"),
    [
        ("nsys: checksum mismatch: https://x/y has sha256 1, expected 2", "_SHA256"),
        ("write /opt/x: no space left on device", "docker system prune"),
        ("curl: (60) SSL certificate problem: self-signed certificate in chain", "CA_BUNDLE"),
        ("nsys: cannot fetch https://x/y", "http_proxy"),
        ("E: Unable to locate package nsight", "setup.d"),
    ],
)
def test_a_script_that_fails(said: str, advice: str) -> None:
    log = _read(f"{HEAD}#7 2.100 first\n#7 2.200 {said}\n{TAIL}")
    failure = log.failure(1)
    assert (log.step, log.last_lines) == ("nsys", ("first", said))
    assert said in failure.what
    assert failure.what.startswith("The build failed in nsys: ")
    assert advice in failure.hint
    assert failure.exit_code == 4


def test_a_base_image_out_of_reach() -> None:
    log = _read(
        "#2 [internal] load metadata for example.com/none:1\n"
        "#2 ERROR: failed to do request: Head https://example.com/v2/: lookup: no such host\n"
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
