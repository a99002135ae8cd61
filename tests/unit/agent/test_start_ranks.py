"""profile.py --processes: torchrun's variables, one rank dying, signals, prefixed lines."""

import json
import signal
import time
from pathlib import Path

import pytest

from tests.further import further, keep_first
from tests.unit.agent.wrapper import Wrapper, python, wrapper_in

NAMES = "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT"
SHOW = f"import os, json; print(json.dumps({{n: os.environ[n] for n in '{NAMES}'.split()}}))"
WAIT = "import sys, time; print('ready', flush=True); time.sleep(600)"
SURVIVE = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN);" + WAIT


def only(rank: int, code: str, first: str = "") -> str:
    """`code` on one rank; `first`, and then waiting, on the others."""
    lines = (f"if os.environ['RANK'] == '{rank}':", f"    {code}", first, "time.sleep(600)")
    return "\n".join(("import os, time, sys", *lines))


@pytest.fixture
def wrapper(tmp_path: Path) -> Wrapper:
    return wrapper_in(tmp_path)


def test_torchruns_variables_and_prefixed_lines(wrapper: Wrapper) -> None:
    done = wrapper.run("--processes=3", "--ranks=0,2", "--", *python(SHOW))
    assert done.returncode == 0
    assert wrapper.reports() == ["rank0.nsys-rep", "rank2.nsys-rep"]
    lines = sorted(done.stdout.splitlines())
    prefixes = [line.partition("{")[0] for line in lines]
    assert prefixes == ["[1] ", "[2] ", ""]
    ranks = [json.loads(line[line.index("{") :]) for line in lines]
    assert [rank["RANK"] for rank in ranks] == ["1", "2", "0"]
    assert {(r["WORLD_SIZE"], r["LOCAL_WORLD_SIZE"], r["MASTER_ADDR"]) for r in ranks} == {
        ("3", "3", "127.0.0.1")
    }
    assert len({rank["MASTER_PORT"] for rank in ranks}) == 1


@pytest.mark.further
def test_lines_that_are_written_in_pieces_stay_whole(wrapper: Wrapper) -> None:
    pieces = "import sys, time\nfor _ in range(20): [print(end=c, flush=True) for c in 'whole\\n']"
    done = wrapper.run("--processes=3", "--plain", "--", *python(pieces))
    counts = {line: done.stdout.splitlines().count(line) for line in set(done.stdout.splitlines())}
    assert counts == {"whole": 20, "[1] whole": 20, "[2] whole": 20}


@pytest.mark.further
def test_the_second_of_two_nodes(wrapper: Wrapper) -> None:
    pod = {"PET_NODE_RANK": "1", "PET_NNODES": "2", "PET_MASTER_ADDR": "job-node-0.job"}
    done = wrapper.run("--processes=2", "--", *python(SHOW), PET_MASTER_PORT="29500", **pod)
    ranks = [json.loads(line[line.index("{") :]) for line in done.stdout.splitlines()]
    assert sorted((r["RANK"], r["LOCAL_RANK"], r["WORLD_SIZE"]) for r in ranks) == [
        ("2", "0", "4"),
        ("3", "1", "4"),
    ]
    assert {(r["MASTER_ADDR"], r["MASTER_PORT"]) for r in ranks} == {("job-node-0.job", "29500")}
    assert wrapper.reports() == ["rank2.nsys-rep", "rank3.nsys-rep"]


@pytest.mark.parametrize("ranks", ["all", *map(further, ("0", "1"))])
def test_one_rank_that_dies_ends_the_others_and_their_reports_are_kept(
    wrapper: Wrapper, ranks: str, tmp_path: Path
) -> None:
    started = str(tmp_path / "started")  # a rank that is stopped before its program has no report
    waits = f"while not os.path.exists({started!r}): time.sleep(0.01)"
    code = only(1, f"{waits}\n    sys.exit(9)", f"open({started!r}, 'w').close()")
    done = wrapper.run("--processes=2", f"--ranks={ranks}", "--", *python(code))
    assert done.returncode == 9
    assert "rank 1 ended with exit code 9: ending the others" in done.stderr
    kept = ["rank0.nsys-rep", "rank1.nsys-rep"] if ranks == "all" else [f"rank{ranks}.nsys-rep"]
    assert wrapper.reports() == kept


@pytest.mark.further
def test_a_rank_that_does_not_end_is_killed(wrapper: Wrapper) -> None:
    code = only(0, "time.sleep(1); sys.exit(4)").replace("time.sleep(600)", SURVIVE)
    done = wrapper.run("--processes=2", "--plain", "--grace=0.5", "--", *python(code))
    assert done.returncode == 4


@pytest.mark.parametrize(
    ("processes", "signum", "times"),
    keep_first(
        1,
        [
            (2, signal.SIGTERM, 1),
            (0, signal.SIGINT, 2),
            (0, signal.SIGTERM, 1),
            (2, signal.SIGINT, 2),
        ],
    ),
)
def test_a_signal_ends_the_job_with_whole_reports(
    wrapper: Wrapper, processes: int, signum: signal.Signals, times: int
) -> None:
    process = wrapper.start(f"--processes={processes}", "--", *python(WAIT))
    assert process.stdout is not None
    ready = (line for line in process.stdout if "ready" in line)
    for _ in range(max(1, processes)):
        next(ready)
    for _ in range(times):
        process.send_signal(signum)
        time.sleep(0.1)
    process.stdout.read()
    process.stdout.close()
    assert process.wait(120) == 128 + signum
    assert len(wrapper.reports()) == max(1, processes)
