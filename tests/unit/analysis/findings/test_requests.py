"""Logs of requests: read, refused, and joined with the iterations that answered them."""

import json
from pathlib import Path

import numpy as np
import pytest

from gpu_profile.analysis.findings.requests.join import RequestFacts, judge_requests
from gpu_profile.analysis.findings.requests.log import read_request_log
from gpu_profile.analysis.findings.requests.times import IterationTimes
from gpu_profile.analysis.store.files.open_report import open_report
from gpu_profile.errors import SettingsError
from gpu_profile.schemas import load_schema
from tests.generator.serving import Server, serve
from tests.invoked import invoke
from tests.reading import diagnose_reports

DOCS = Path(__file__).parents[4] / "docs"
LINE = {"id": "a", "arrival": 1.79e9, "first_token": 1.79e9 + 1, "end": 1.79e9 + 3, "tokens": 5}
GENERATED = {
    "date": "20261125-080000",
    "backend": "vllm",
    "request_rate": "inf",
    "duration": 4.0,
    "completed": 2,
    "failed": 1,
    "total_output_tokens": 8,
    "request_throughput": 0.5,
    "request_goodput": None,
    "output_throughput": 2.0,
    "input_lens": [16, 16, 60],
    "output_lens": [3, 0, 5],
    "ttfts": [0.25, 0.0, 0.75],
    "itls": [[0.01, 0.03], [], [0.02, 0.02, 0.02, 0.02]],
    "latencies": [0.29, 0.0, 0.83],
    "start_times": [812.5, 812.5, 813.0],
    "queue_times": [0.0, 0.0, 0.1],
    "generated_texts": ["a b c", "", "a b c d e"],
    "errors": ["", "timeout", ""],
    "mean_ttft_ms": 500.0,
}
"""What `vllm bench serve --save-result --save-detailed` writes, of which SGLang's bench_serving
--output-details and benchmark_serving of TensorRT-LLM have the same lists."""
BENCHED = {
    "id": 7,
    "num_input_tokens": 128,
    "error_tokens": 0,
    "start_timestamp": 7_000_000_000,
    "first_token_timestamp": 7_250_000_000,
    "end_timestamp": 8_000_000_000,
    "decode_iteration": 3,
    "num_total_output_tokens": 4,
    "time_to_first_token": 250_000_000,
    "output": " a b c",
    "output_tokens": 4,
}
"""A request of `trtllm-bench --streaming --request_json`, with some of its computed fields."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The report and the log of a server with a slow host."""
    folder = tmp_path_factory.mktemp("served")
    run = serve(Server(requests=12, gap_us=2000, chunk=512))
    return run.save(folder), run.save_requests(folder / "log.jsonl")


def test_requests_are_joined_with_iterations(served: tuple[Path, Path]) -> None:
    report, path = served
    with open_report(str(report)) as database:
        times = diagnose_reports(database).overview.iterations
    log = read_request_log(path)
    facts = judge_requests(log, times)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    waits = [line["first_token"] - line["arrival"] for line in lines]
    assert facts.first_token.median == pytest.approx(1e3 * np.median(waits))
    assert facts.tokens_a_second == pytest.approx(
        sum(line["tokens"] for line in lines)
        / (max(line["end"] for line in lines) - min(line["arrival"] for line in lines))
    )
    # A request that comes before the first iteration is not in the recording as a whole.
    assert facts.joined in (facts.count, facts.count - 1)
    assert len(facts.slowest) == 6
    assert facts.slowest[0].ms == pytest.approx(1e3 * max(waits), rel=0.01)
    assert all(slow.more_ms > 0 for slow in facts.slowest)
    assert "iterations with prompts" in facts.slowest[0].where


def test_an_iteration_of_unknown_kind_may_hold_the_prompt(tmp_path: Path) -> None:
    run = serve(Server(requests=6, engine="", graphs="graph"))
    with open_report(str(run.save(tmp_path))) as database:
        times = diagnose_reports(database).overview.iterations
    facts = judge_requests(read_request_log(run.save_requests(tmp_path / "log")), times)
    assert facts.queued is not None
    assert facts.queued.median < 0.5 * facts.first_token.median


@pytest.mark.further
def test_the_answer_in_the_docs_is_what_is_printed(tmp_path: Path) -> None:
    served = serve(Server(gap_us=2000, chunk=512, bursts=2))
    report, log = served.save(tmp_path), served.save_requests(tmp_path / "log.jsonl")
    words = ("diagnose", "--report", str(report), "--requests", str(log))
    printed = invoke(*words, directory=tmp_path).stdout
    page = (DOCS / "serving.md").read_text()
    answer = page.partition("## The answer\n```\n")[2].partition("```")[0]
    assert [line for line in answer.splitlines() if line not in printed] == []


def test_a_request_as_fast_as_the_median_is_not_slow(tmp_path: Path) -> None:
    """Iterations of 1 s each; five requests of three iterations, one of four."""
    start = np.arange(0, 40, dtype=np.int64) * 10**9 + 1_790_000_000 * 10**9
    parts = np.tile(np.array([6, 2, 1, 1], np.int64) * 10**8, (40, 1))
    times = IterationTimes(start, start + 10**9, start, np.ones(40, np.bool_), parts)

    def judge(last_s: float) -> RequestFacts:
        waits = [3.0] * 5 + [last_s]
        lines = [
            {"id": row, "arrival": 1.79e9 + row, "tokens": 1}
            | dict.fromkeys(("first_token", "end"), 1.79e9 + row + wait)
            for row, wait in enumerate(waits)
        ]
        (tmp_path / "log").write_text("\n".join(map(json.dumps, lines)))
        return judge_requests(read_request_log(tmp_path / "log"), times)

    assert [slow.id for slow in judge(4.0).slowest] == ["5"]
    alike = judge(3.0)
    assert not alike.slowest
    assert list(alike.to_lines())[-1].startswith("   no request took 10 % longer than the median")


def test_the_verb_prints_requests(served: tuple[Path, Path], tmp_path: Path) -> None:
    report, path = served
    words = ("diagnose", "--report", str(report), "--requests", str(path))
    printed = invoke(*words, directory=tmp_path).stdout
    assert "requests: 12, " in printed
    document = json.loads(invoke(*words, "--format", "json", directory=tmp_path).stdout)["requests"]
    wanted = load_schema("findings")["properties"]["requests"]["required"]
    assert sorted(document) == sorted(wanted)


def test_a_log_of_requests_that_came_before_the_recording_gets_no_reasons(
    served: tuple[Path, Path], tmp_path: Path
) -> None:
    lines = [json.loads(line) for line in served[1].read_text().splitlines()]
    early = [json.dumps({**line, "arrival": line["arrival"] - 5}) for line in lines]
    (tmp_path / "log").write_text("\n".join(early))
    words = ("diagnose", "--report", str(served[0]), "--requests", "log")
    printed = invoke(*words, directory=tmp_path).stdout
    assert "   fewer than 3 requests came and got their first token in the recording, so" in printed


def test_a_request_of_one_iteration_is_split_by_what_ran() -> None:
    start = np.array([0, 100, 200], np.int64)
    parts = np.array([[80, 0, 10, 10], [0, 60, 20, 20], [0, 60, 20, 20]], np.int64)
    prompts = np.array([True, False, False])
    times = IterationTimes(start, start + 100, start, prompts, parts)
    assert times.sum_between(0, 300).tolist() == [80, 120, 50, 50, 0]
    assert times.sum_between(150, 250).tolist() == [0, 60, 20, 20, 0]
    assert times.sum_between(250, 400).tolist() == [0, 30, 10, 10, 100]


def read(folder: Path, text: str) -> RequestFacts:
    (folder / "log").write_text(text)
    return judge_requests(read_request_log(folder / "log"), None)


@pytest.mark.parametrize("lead", ["", '{"request_throughput": 1, "ttfts": []}\n'])
def test_the_output_of_a_load_generator_is_read(lead: str, tmp_path: Path) -> None:
    facts = read(tmp_path, lead + json.dumps(GENERATED))
    assert (facts.count, facts.failed, facts.joined) == (2, 1, 0)
    assert facts.first_token.median == pytest.approx(500)
    assert facts.between_tokens.median == pytest.approx(20)
    assert facts.tokens_a_second == 2
    assert "the log does not say when each request came" in "\n".join(facts.to_lines())


def test_the_requests_of_trtllm_bench_are_read(tmp_path: Path) -> None:
    late = {**BENCHED, "first_token_timestamp": 7_500_000_000, "output_tokens": 1}
    facts = read(tmp_path, json.dumps([BENCHED, late]))
    assert (facts.count, facts.failed, facts.joined) == (2, 0, 0)
    assert facts.first_token.median == pytest.approx(375)
    assert facts.between_tokens.median == pytest.approx(250)
    assert facts.tokens_a_second == 5


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (json.dumps([{**BENCHED, "first_token_timestamp": -1}]), "no time of its first token"),
        (json.dumps([{"start_timestamp": 1}]), "no time of its first token"),
        (json.dumps([{**BENCHED, "end_timestamp": 1}]), "times of a request do not rise"),
        (json.dumps([{**BENCHED, "output_tokens": 0}]), "times of a request do not rise"),
        (json.dumps([{**BENCHED, "output_tokens": 1e308}]), "times of a request do not rise"),
        (json.dumps([BENCHED, 1]), "line 1 of"),
        ("", "holds no request"),
        ("[1]", "line 1 of"),
        (json.dumps(LINE) + "\n{", "line 2 of"),
        ("[" * 100_000, "line 1 of"),
        (json.dumps({"id": 1}), "lacks arrival, first_token, end, tokens"),
        (json.dumps({**LINE, "tokens": True}), "a time or tokens is not a number"),
        (json.dumps({**LINE, "tokens": 1e308}), r"tokens is 1e\+308, of a request"),
        (json.dumps({**LINE, "tokens": 0}), "tokens is 0, of a request that was answered"),
        (json.dumps({**LINE, "arrival": "x"}), "a time or tokens is not a number"),
        (json.dumps({**LINE, "end": 1.79e9 - 1}), "do not rise, or are not in Unix seconds"),
        (json.dumps({**LINE, "arrival": 12.0}), "do not rise, or are not in Unix seconds"),
        (f"{json.dumps(LINE)}\n" * 2, "id 'a' is in 2 lines"),
        (json.dumps({**LINE, "first_token": None}), "no request has been answered"),
        (json.dumps({"request_throughput": 2}), "has no times of single requests"),
        (json.dumps({**GENERATED, "ttfts": [0.1]}), "lists of times do not fit together"),
        (json.dumps({**GENERATED, "duration": 0}), "lists of times do not fit together"),
        (json.dumps({**GENERATED, "duration": 10**400}), "lists of times do not fit together"),
        (json.dumps({**GENERATED, "output_lens": [1e308] * 3}), "lists of times do not fit"),
        (json.dumps({**GENERATED, "ttfts": [-0.1] * 3}), "lists of times do not fit together"),
        (json.dumps({**GENERATED, "itls": [[float("nan")]] * 3}), "lists of times do not fit"),
    ],
)
def test_a_log_that_is_none_is_refused(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=told):
        read(tmp_path, text)


def test_a_log_of_another_time_is_refused(served: tuple[Path, Path], tmp_path: Path) -> None:
    earlier = dict.fromkeys(("arrival", "first_token", "end"), 1780000000.0)
    (tmp_path / "log").write_text(json.dumps({**LINE, **earlier}))
    words = ("diagnose", "--report", str(served[0]), "--requests")
    refused = invoke(*words, str(tmp_path / "log"), directory=tmp_path)
    assert refused.returncode == 2
    assert "the requests are of 2026-05-28" in refused.stderr
    assert "Use the log of the recorded time" in refused.stderr
    assert invoke(*words, str(tmp_path), directory=tmp_path).returncode == 2
