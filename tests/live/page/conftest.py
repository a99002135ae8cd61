"""A page and a Chromium for the live tests of the page."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpu_profile.analysis.multi_report.work import ReportSource
from gpu_profile.analysis.page import write_page
from tests.live.page.browser import Browser

DATA = Path(__file__).parents[2] / "data" / "h200x4-ddp"
PROGRAMS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    output = tmp_path_factory.mktemp("page") / "run.html"
    write_page([ReportSource(str(DATA / "all-ranks-one-report.sqlite.gz"))], output)
    return output.as_uri()


@pytest.fixture(scope="module")
def browser(
    tmp_path_factory: pytest.TempPathFactory, require: Callable[[str, object], None]
) -> Iterator[Browser]:
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    require("chromium", "" if program else "no chromium on PATH")
    with Browser(str(program), tmp_path_factory.mktemp("profile")) as made:
        yield made
