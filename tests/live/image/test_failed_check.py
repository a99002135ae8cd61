"""A script of test.d that fails is a failed check, with its last line as the reason."""

from pathlib import Path

from tests.image.checks import in_container, last_line


def test_a_check_that_fails_is_seen_as_failed(image: str, tmp_path: Path) -> None:
    check = tmp_path / "fails.sh"
    check.write_text("source /test.d/lib.sh\nfail 'on purpose'\n")
    result = in_container(image, "bash", "/fails.sh", options=(f"--volume={check}:/fails.sh:ro",))
    assert (result.returncode, last_line(result)) == (1, "FAILED: on purpose")
