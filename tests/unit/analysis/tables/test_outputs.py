"""--output: its folder is made, a folder gets a file, a place that cannot be is refused."""

import shutil
from pathlib import Path

import pytest

from tests.further import keep_first
from tests.invoked import invoke

WRITERS = {
    "html": (("html", "--report", "REPORT"), "page.html"),
    "timeline": (("timeline", "--report", "REPORT"), "timeline.perfetto-trace.gz"),
    "scrub": (("scrub", "--report", "REPORT"), "rank0.sqlite"),
    "compare": (
        ("compare", "--base", "REPORT", "--new", "OTHER", "--format", "junit"),
        "comparison.xml",
    ),
    "trace-file": (("trace-file", "json:dumps"), "functions.json"),
}


@pytest.fixture
def report(short_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(short_run / "rank0.sqlite", tmp_path))


@pytest.fixture
def places(short_run: Path, report: Path) -> dict[str, str]:
    return {"REPORT": str(report), "OTHER": str(short_run / "rank1.sqlite")}


def words_of(verb: str, places: dict[str, str], output: str) -> tuple[str, ...]:
    words = (places.get(word, word) for word in WRITERS[verb][0])
    return (*words, f"--output={output}")


@pytest.mark.parametrize(
    "verb", keep_first(1, ["timeline", "trace-file", "html", "scrub", "compare"])
)
def test_a_folder_gets_the_file_by_its_usual_name(
    tmp_path: Path, places: dict[str, str], verb: str
) -> None:
    (tmp_path / "there").mkdir()
    for folder in ("there", "new/below/"):
        done = invoke(*words_of(verb, places, folder), directory=tmp_path)
        assert done.returncode == 0, done.stderr
        assert [path.name for path in (tmp_path / folder).iterdir()] == [WRITERS[verb][1]]


@pytest.mark.parametrize("verb", WRITERS)
def test_a_place_that_cannot_be_is_refused(
    tmp_path: Path, report: Path, places: dict[str, str], verb: str
) -> None:
    done = invoke(*words_of(verb, places, f"{report}/x.sqlite"), directory=tmp_path)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith(f"error: --output {report}")
    assert len(done.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == [report.name]


@pytest.mark.parametrize("verb", ["stats", "diagnose"])
def test_a_form_that_is_none_is_refused(tmp_path: Path, report: Path, verb: str) -> None:
    done = invoke(verb, f"--report={report}", "--format=xml", directory=tmp_path)
    assert done.returncode == 2, done.stdout
    assert done.stderr.splitlines()[-1].startswith("error: --format 'xml' is not known.")
