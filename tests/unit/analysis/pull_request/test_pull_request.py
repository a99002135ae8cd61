"""The answer to a pull request: its figures, its changes, and what a crafted result can do."""

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.ci_bench import Pool, share_of_failures
from gpu_profile.analysis.findings.diagnosis import Diagnosis
from gpu_profile.analysis.findings.finding import Finding
from gpu_profile.analysis.pull_request.changes import Places, list_changes
from gpu_profile.analysis.pull_request.document import as_json, read_result
from gpu_profile.analysis.pull_request.figure import Figure, format_percent
from gpu_profile.analysis.pull_request.formats import MARK, MOST_LINES, write_result
from gpu_profile.analysis.pull_request.result import Change, CiResult, KernelSet
from gpu_profile.errors import ReportError
from gpu_profile.schemas import load_schema

BASE = (10.0, 10.1, 9.9, 10.0, 10.1, 9.9)
HOSTILE = "a\\|b`@team <img src=x>\n| --- |\x1b[31m\u202e[link](https://example.com)" * 9


def figure(factor: float, metric: str = "gpu", fail_over: float = 0.01) -> Figure:
    """Each run of the change takes `factor` times as long as its base, give or take 0.5 %."""
    wobble = (1.005, 0.995, 1.0, 0.995, 1.005, 1.0)
    new = tuple(ms * factor * by for ms, by in zip(BASE, wobble, strict=True))
    return Figure(metric=metric, base_ms=BASE, new_ms=new, fail_over=fail_over)


def result(gpu: float = 1.03, wall: float = 1.03) -> CiResult:
    figures = figure(gpu), figure(wall, "step", 0.05)
    return CiResult(base="main (1a2b3c4)", figures=figures, kernels=KernelSet(base=4, new=4))


@pytest.mark.parametrize(
    ("gpu", "wall", "verdict"),
    [
        (1.03, 1.03, "regression"),
        (1.0, 1.08, "regression"),
        (1.005, 1.02, "pass"),
        (0.9, 1.0, "improvement"),
        (0.9, 1.08, "regression"),
    ],
)
def test_the_figure_that_matters_most_is_the_verdict(gpu: float, wall: float, verdict: str) -> None:
    assert result(gpu, wall).verdict == verdict
    assert result(gpu, wall).fails == (verdict == "regression")


def test_what_noise_hides_is_undecided_and_says_what_would_decide() -> None:
    noisy = Figure(metric="step", base_ms=(10, 12, 10), new_ms=(11.5, 12.1, 11.9), fail_over=0.05)
    undecided = CiResult(base="main", figures=(noisy,))
    assert undecided.verdict == "undecided"
    assert not undecided.fails
    assert replace(undecided, require_decision=True).fails
    (need,) = undecided.list_needs()
    assert need == "7 pairs would tell 11 % more wall time from the noise"
    assert need in write_result(undecided, "markdown").splitlines()[1]
    few = replace(noisy, fewest=3)
    assert few.describe_need() == "2 more steps in each run would decide the wall time"
    two = replace(noisy, base_ms=(1, 1), new_ms=(2, 2))
    assert two.describe_need() == "3 pairs at least would decide the wall time"
    idle = replace(noisy, metric="gpu", base_ms=(0, 0, 0))
    assert idle.describe_need() == "no pairs decide the GPU time: it is 0 in most steps of a run"
    assert "GPU time: undecided, 0.000 -> 11.833 ms a step, no pairs decide" in str(idle)


def test_a_comment_has_15_lines_whatever_names_say() -> None:
    change = Change(kind="kernel", name=HOSTILE, base_ms=0, new_ms=1, cause=HOSTILE)
    crafted = replace(
        result(), base=HOSTILE, changes=(change,) * 12, notes=(HOSTILE,), repeat=(HOSTILE,)
    )
    comment = write_result(crafted, "markdown")
    lines = comment.splitlines()
    assert lines[0] == MARK
    assert len(lines) <= MOST_LINES
    rows = [line for line in lines if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in rows} == {6}
    assert {line.replace("\\\\|", "?|").count("\\|") > 0 for line in rows[4:]} == {True}
    outside = "".join(part for line in lines[1:] for part in line.split("``")[::2])
    assert "@team" not in outside
    assert "<img" not in outside
    assert comment.replace("\n", "").isprintable()
    ElementTree.fromstring(write_result(crafted, "junit"))
    assert write_result(crafted, "text").replace("\n", "").isprintable()


def test_a_result_is_read_again_without_its_command() -> None:
    change = Change(kind="kernel", name="gemm", base_ms=1.0, new_ms=2.0, cause="2 a step")
    written = replace(result(), changes=(change,), repeat=("rm", "-rf", "/"))
    document = json.loads(as_json(written))
    assert (document["verdict"], document["figures"][0]["verdict"]) == ("regression", "regression")
    assert document.keys() == load_schema("ci")["properties"].keys()
    document["verdict"] = "pass"
    again = read_result(json.dumps(document))
    assert again == replace(written, repeat=())
    assert again.verdict == "regression"


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        ("figures", [], "its figures are not of gpu, step"),
        ("figures.0.metric", "step", "its figures are not of gpu, step"),
        ("figures.0.metric", "x", "its figures are not of gpu, step"),
        ("figures.0.base_ms", [1.0], "no 1 to 100 pairs"),
        ("figures.0.base_ms", [-1.0] * 6, "an impossible time"),
        ("figures.0.base_ms", [1e300] * 6, "an impossible time"),
        ("figures.0.base_ms", [1e-300, 1e8, 1, 1, 1, 1], "an impossible time"),
        ("figures.0.fewest", -(10**18), "an impossible number of steps"),
        ("figures.0.base_ms", "fast", "Expected `array`"),
        ("figures.0.fail_over", 1e300, "an impossible threshold"),
        ("changes", [{"kind": "k", "name": "n", "base_ms": 1, "new_ms": 2}] * 13, "more than 12"),
        ("changes", [{"kind": "k", "name": "n", "base_ms": -1, "new_ms": 2}], "impossible time"),
        ("base", None, "Expected `str`"),
    ],
)
def test_what_no_job_of_ours_writes_is_refused(path: str, value: object, why: str) -> None:
    document = json.loads(as_json(result()))
    *parents, last = path.split(".")
    place = document
    for name in parents:
        place = place[int(name) if name.isdecimal() else name]
    place[last] = value
    with pytest.raises(ReportError, match="is not a result of ci") as refused:
        read_result(json.dumps(document))
    assert why in str(refused.value)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"base": NaN}', "[" * 100_000, "\x00"])
def test_what_is_no_document_is_refused(text: str) -> None:
    with pytest.raises(ReportError):
        read_result(text)


def test_the_gate_is_silent_for_the_same_and_finds_3_percent() -> None:
    """Runs that differ by 1 %, in both figures alike; the bench draws more."""
    runs = [10 + 0.1 * ((7 * run) % 24 - 12) / 7 for run in range(24)]
    sides = (
        {name: tuple(factor * ms for ms in runs) for name in ("gpu", "step")}
        for factor in (1, 1.03)
    )
    pool = Pool(*sides)
    assert share_of_failures(pool, 6, 200, changed=False) <= 0.02
    assert share_of_failures(pool, 6, 200, changed=True) >= 0.8


def test_a_large_change_has_no_exponent() -> None:
    assert [format_percent(part) for part in (0.013, -0.0512, 0.114, 2.04)] == [
        *("1.3 %", "5.1 %", "11 %", "204 %")
    ]


@pytest.mark.parametrize(
    ("pool", "pairs"),
    [("gpt-h100", 3), ("products-h100", 3), ("products-h100", 6)],  # of 8 runs a side, and of 24
)
def test_the_goals_hold_for_runs_of_a_gpu(pool: str, pairs: int) -> None:
    text = (Path(__file__).parents[4] / f"bench/pools/{pool}.json").read_text()
    runs = Pool.of(read_result(text))
    assert share_of_failures(runs, pairs, 200, changed=False) <= 0.02
    assert share_of_failures(runs, pairs, 200, changed=True) >= 0.8


@pytest.mark.parametrize(("spread", "told"), [(0.001, 1), (1.0, 0)])
def test_a_finding_within_the_noise_of_the_wall_times_is_not_told(spread: float, told: int) -> None:
    base, new = (
        Diagnosis((Finding("host_bound", (0,), "launch", (), "", at_most_ms=ms),), ())
        for ms in (2.0, 3.0)
    )
    still, moved = (10.0, 10.0, 10.0), (10.0 - spread, 10.0, 10.0 + spread)
    wall = Figure(metric="step", base_ms=still, new_ms=moved, fail_over=0.05)
    changes = list_changes(([], []), Places({}, {}), (base, new), wall)
    assert len(changes) == told
