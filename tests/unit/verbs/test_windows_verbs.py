"""--window, --base-window and --new-window, and the page's switch, as users type them."""

import csv
import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from gpu_profile.command import Result
from gpu_profile.nsys.recorder import RankWindow, Window
from gpu_profile.verbs.jobs.record import describe_end
from tests.invoked import invoke
from tests.unit.analysis.scenarios import Training
from tests.unit.analysis.synthetic import Rank


def slower(rank: Rank) -> None:
    for _ in range(20):
        rank.kernel(200)


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two ranks in each of three windows; the third is slower by half."""
    folder = tmp_path_factory.mktemp("run")
    for number in (1, 2, 3):
        training = Training(ranks=2, steps=12)
        slow = replace(training, data=slower)
        recording = (slow if number == 3 else training).record()
        recording.add("TARGET_INFO_SESSION_START_TIME", 10**18 + number * 10**12)
        recording.save(folder / f"all.{number}.sqlite")
    return folder


def rows(result: Result) -> list[dict[str, str]]:
    assert result.returncode == 0, result.stderr
    return list(csv.DictReader(result.stdout.splitlines()))


def test_stats_read_all_windows_or_one(reports: Path, tmp_path: Path) -> None:
    words = ("stats", "--report", str(reports), "--table=step_sum", "--format=csv")
    every = rows(invoke(*words, directory=tmp_path))
    assert [(row["Rank"], row["Steps"]) for row in every] == [("0", "35"), ("1", "35")]
    second = rows(invoke(*words, "--window=2", directory=tmp_path))
    assert [(row["Rank"], row["Steps"]) for row in second] == [("0", "11"), ("1", "11")]


def test_nsys_tables_count_a_window_once(reports: Path, tmp_path: Path) -> None:
    words = ("stats", "--report", str(reports), "--table=cuda_gpu_kern_sum", "--by=rank")
    table = rows(invoke(*words, "--format=csv", directory=tmp_path))
    adam = {row["Rank"]: row["Instances"] for row in table if row["Name"] == "adam"}
    assert adam == {"0": "36", "1": "36"}


def test_the_first_start_of_several_is_window_1(reports: Path, tmp_path: Path) -> None:
    """srun's first step leaves rank0.node, the second one rank0.node.2."""
    (tmp_path / "rank0.node.sqlite").symlink_to(reports / "all.1.sqlite")
    (tmp_path / "rank0.node.2.sqlite").symlink_to(reports / "all.2.sqlite")
    words = ("stats", "--report", str(tmp_path), "--table=step_sum", "--format=csv", "--window=1")
    assert len(rows(invoke(*words, directory=tmp_path))) == 2


def test_a_window_that_is_not_there_is_refused(reports: Path, tmp_path: Path) -> None:
    words = ("diagnose", "--report", str(reports), "--window=7")
    refused = invoke(*words, directory=tmp_path)
    assert refused.returncode == 6
    assert "no report is of window 7. There are 1, 2, 3" in refused.stderr


@pytest.mark.parametrize(("new", "code"), [("2", 0), ("3", 8)])
def test_a_window_is_compared_with_another(
    reports: Path, tmp_path: Path, new: str, code: int
) -> None:
    words = ("compare", "--base", str(reports), "--new", str(reports), "--base-window=1")
    done = invoke(*words, f"--new-window={new}", directory=tmp_path)
    assert done.returncode == code, done.stderr


def test_the_page_goes_to_each_window(reports: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    words = ("html", "--report", str(reports), "--output", str(page))
    assert invoke(*words, directory=tmp_path).returncode == 0
    text = page.read_text()
    match = re.search(r'id="timeline-facts">(.*?)</script>', text)
    assert match
    windows = json.loads(match[1])["windows"]
    assert [number for number, _, _ in windows] == [1, 2, 3]
    assert all(one[2] <= other[1] for one, other in pairwise(windows))
    assert '<select id="timeline-window"' in text


def test_record_wants_a_length_that_it_can_record(tmp_path: Path) -> None:
    for words, what in (
        (("--every=10m",), "how long a window is. Use --seconds 5, or --steps 10."),
        (("--url=http://x",), "how long a window is. Use --seconds 5."),
        (("--seconds=301",), "--seconds 301 is not above 0 and at most 300"),
        (("--seconds=5", "--steps=10"), "two lengths of a window"),
        (("--seconds=5", "--keep=3"), "--keep 3 is for windows that repeat"),
        (("--seconds=5", "--every=1m", "--keep=0"), "--keep 0 leaves no window"),
    ):
        done = invoke("record", "--job=x", *words, directory=tmp_path)
        assert (done.returncode, what in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize(
    ("note", "ending"), [("", "; the job goes on"), ("the program ended in it", "")]
)
def test_a_job_that_ended_in_its_window_does_not_go_on(note: str, ending: str) -> None:
    window = Window(
        number=4,
        began={},
        ranks=(RankWindow(name="rank0.vm"), RankWindow(name="rank1.vm", note=note)),
    )
    assert describe_end("armed-1", window) == f"`invoke diagnose --run armed-1` reads them{ending}"
