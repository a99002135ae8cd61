"""Serve the engine over HTTP on loopback, and load it with a closed loop.

    python3 bench/serving/programs/server.py --out DIR [--turns base,host_gap] [--repeat 3]

DIR gets steps.jsonl (the engine's own log, which ../score.py holds against a recording),
requests.jsonl (for `diagnose --requests`), and turns.jsonl: what an iteration took in each turn.
A turn is `base`, which reads the tokens of an iteration before it launches the next one; `healthy`,
which overlaps both; one of the planted causes or variants of engine.py; or `two_models`: two
engines in one process. To record one:

    ./inv profile --on host --name healthy -- python3 bench/serving/programs/server.py --out DIR
    ./inv diagnose --run healthy --requests DIR/requests.jsonl

`--window` begins and ends a recording of `--capture-range=cudaProfilerApi` around each turn: with
`--capture-range-end=repeat:N` nsys writes a report a turn. Each second round (`--repeat`) takes the
turns in the reverse order, so that a machine which gets slower favours none.
"""

import argparse
import json
import select
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

import torch
from engine import CAUSES, VARIANTS, Engine, Request

BASE, TWO_MODELS = "base", "two_models"
TURNS = (BASE, *CAUSES, *VARIANTS, TWO_MODELS)
IDLE_S = 0.001
PAUSE_S = 4.0
"""Between two windows, in which nsys writes a report."""


def _start_api() -> tuple[Connection, "subprocess.Popen[bytes]"]:
    ours, theirs = Pipe()
    script = str(Path(__file__).with_name("api.py"))
    words = [sys.executable, script, str(theirs.fileno())]
    api = subprocess.Popen(words, pass_fds=[theirs.fileno()])
    theirs.close()
    return ours, api


def serve_load(
    engines: Sequence[Engine], api: Connection, requests: int, users: int
) -> list[dict[str, object]]:
    """Iterate until the API server tells that its load is answered."""
    api.send((requests, users))
    while True:
        worked = [engine.step() for engine in engines]
        while select.select([api], [], [], 0 if any(worked) else IDLE_S)[0]:
            message = api.recv()
            if isinstance(message, list):
                return message
            engines[message[0] % len(engines)].submit(Request(*message))


@contextmanager
def _window(wanted: bool) -> Iterator[None]:
    if wanted:
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
    yield
    if wanted:
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()


def sum_up(lines: Sequence[dict[str, object]]) -> dict[str, object]:
    """The mean of all iterations, and the median of those that decode (ms)."""
    starts = [float(str(line["start"])) for line in lines]
    times = [1e3 * (after - start) for start, after in pairwise(starts)]
    kinds = [str(line["kind"]) for line in lines]
    figures: dict[str, object] = {"iterations": len(lines), "mean_ms": statistics.fmean(times)}
    for kind in ("decode", "mixed"):
        of_kind = [time for time, own in zip(times, kinds, strict=False) if own == kind]
        figures[f"{kind}_ms"] = statistics.median(of_kind) if of_kind else None
    return figures


def _choose_engines(engines: Sequence[Engine], name: str) -> Sequence[Engine]:
    """The engines of a turn, with its cause planted and without a line in their logs."""
    chosen = engines[1:] if name == TWO_MODELS else engines[:1]
    for engine in chosen:
        engine.cause = "" if name in (BASE, TWO_MODELS) else name
        engine.lines.clear()
    return chosen


def _take_turns(chosen: argparse.Namespace) -> None:
    names = chosen.turns.split(",")
    api, process = _start_api()
    size = (chosen.layers, chosen.width, "speculative" in names)
    engines = [Engine(chosen.device, api.send, not chosen.no_marks, *size)]
    if TWO_MODELS in names:
        half = (max(1, chosen.layers // 2), chosen.width)
        engines += [Engine(chosen.device, api.send, not chosen.no_marks, *half) for _ in range(2)]
    for name in names:
        serve_load(_choose_engines(engines, name), api, chosen.warmup, chosen.users)
    steps = (chosen.out / "steps.jsonl").open("w")
    requests = (chosen.out / "requests.jsonl").open("w")
    turns = (chosen.out / "turns.jsonl").open("w")
    for turn in range(chosen.repeat):
        for name in names[::-1] if turn % 2 else names:
            serving = _choose_engines(engines, name)
            start = time.time()
            with _window(chosen.window):
                answered = serve_load(serving, api, chosen.requests, chosen.users)
            seconds = time.time() - start
            lines = sorted(
                (line for engine in serving for line in engine.lines), key=lambda one: one["start"]
            )
            named = {"turn": turn, "name": name}
            steps.writelines(json.dumps({**line, **named}) + "\n" for line in lines)
            requests.writelines(json.dumps({**line, **named}) + "\n" for line in answered)
            rate = sum(int(str(line["tokens"])) for line in answered) / seconds
            figures = {**named, **sum_up(lines), "tokens_a_second": rate}
            print(json.dumps(figures), file=turns, flush=True)
            print(f"{name}: {len(answered)} requests, {rate:.1f} tokens a second", flush=True)
            time.sleep(PAUSE_S if chosen.window else 0)
    api.close()
    process.wait(10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda", help="cuda or cpu")
    parser.add_argument("--turns", default="healthy", help=", ".join(TURNS))
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--window", action="store_true")
    parser.add_argument("--requests", type=int, default=48)
    parser.add_argument("--warmup", type=int, default=16, help="requests before the turns")
    parser.add_argument("--users", type=int, default=16)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--no-marks", action="store_true", help="as an engine that marks nothing")
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    unknown = set(chosen.turns.split(",")) - set(TURNS)
    if unknown:
        parser.error(f"no turn is named {', '.join(unknown)}")
    chosen.out.mkdir(parents=True, exist_ok=True)
    _take_turns(chosen)


if __name__ == "__main__":
    main()
