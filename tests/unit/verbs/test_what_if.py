"""what-if, as a user types it."""

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

import gpu_profile
from tests.further import keep_first
from tests.invoked import invoke

DATA = Path(__file__).parents[2] / "data"
LOADER = f"--report={DATA / 'unprepared' / 'collate'}"


def test_each_change_alone_and_all_together() -> None:
    """A collate function takes 6 ms of Python in each step of 13.7 ms."""
    done = invoke(
        *("what-if", LOADER, "--remove=finding:1", "--remove=host pauses", "--faster=gemm=2"),
        *("--bandwidth=2", "--control-ms=13.8", "--format=json"),
        directory=DATA,
    )
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    Draft202012Validator(gpu_profile.schema("what_if")).validate(answer)
    gains = {change["change"]: change["gain_ms"] for change in answer["changes"]}
    assert list(gains)[-1] == "all together"
    assert gains["without host pauses"] == pytest.approx(6.5, rel=0.05)
    assert gains["gemm 2 times as fast"] == pytest.approx(0, abs=0.1)
    assert gains["communication 2 times as fast"] == 0
    assert gains["all together"] >= gains["without host pauses"]
    text = invoke("what-if", LOADER, "--remove=host pauses", directory=DATA).stdout
    assert text.splitlines() == [
        "step: 11.80 ms without the profiler, by a replay that is 0.3 % off",
        "without host pauses: 6.77 ms (gains 5.03 ms, 42.6 %)",
    ]


def test_a_control_of_other_steps_is_told() -> None:
    report = f"--report={DATA / 'unprepared' / 'single_eval'}"
    said = "note: --control-ms 1 is not what the replay gives: without the profiler a step takes 19"
    for words in (("diagnose",), ("what-if", "--remove=host pauses")):
        done = invoke(*words, report, "--control-ms=1", directory=DATA)
        assert (done.returncode, said in done.stderr) == (0, True), done.stderr
        same = invoke(*words, report, "--control-ms=19.8", directory=DATA)
        assert (same.returncode, "note" in same.stderr) == (0, False), same.stderr


@pytest.mark.parametrize(
    ("words", "code", "line"),
    keep_first(
        3,
        [
            ((), 2, "what-if needs a change"),
            (("--remove=the weather",), 2, "--remove 'the weather' is not known"),
            (("--remove=finding:9",), 2, "--remove 'finding:9': there are 3 findings"),
            (("--faster=gemm",), 2, "--faster 'gemm' cannot be read"),
            (("--faster=(=2",), 2, "--faster '(=2' cannot be read"),
            (("--faster=nosuch=2",), 2, "--faster 'nosuch=2': no compute kernel of the steps"),
            (("--bandwidth=-1",), 2, "--bandwidth"),
        ],
    ),
)
def test_a_change_that_is_none_is_one_line(words: tuple[str, ...], code: int, line: str) -> None:
    done = invoke("what-if", LOADER, *words, directory=DATA)
    assert (done.returncode, done.stdout) == (code, "")
    assert line in done.stderr


def test_what_cannot_be_replayed_is_not_predicted() -> None:
    report = f"--report={DATA / 'annotated' / 'gemm'}"
    done = invoke("what-if", report, "--remove=launches", directory=DATA)
    assert (done.returncode, done.stdout) == (6, "")
    assert "nothing can be predicted: no steps were found" in done.stderr
