"""Every check of Container-Root/test.d, in a container of the image, by its real exit code."""

from pathlib import Path

import pytest

from tests.image.checks import NOT_APPLICABLE, in_container, last_line

CHECKS = sorted((Path(__file__).parents[2] / "Container-Root" / "test.d").glob("[0-9]*.sh"))


@pytest.mark.parametrize("check", CHECKS, ids=lambda path: path.stem)
def test_check(check: Path, image: str) -> None:
    result = in_container(image, f"/test.d/{check.name}")
    if result.returncode == NOT_APPLICABLE:
        pytest.skip(last_line(result))
    assert result.returncode == 0, last_line(result)


def test_the_image_holds_these_checks(image: str) -> None:
    listed = in_container(image, "sh", "-c", "ls /test.d/[0-9]*.sh").stdout.split()
    assert listed == [f"/test.d/{check.name}" for check in CHECKS], "build the image again"
