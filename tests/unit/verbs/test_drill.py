"""drill: which kernels ncu measures and where it finds them, what it said, and its refusals."""

import dataclasses
import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_profile.analysis.store.files.open_report import open_report
from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.command import Result
from gpu_profile.drill.choose_kernels import DrillPlan, plan_drill
from gpu_profile.drill.ncu_options import list_ncu_options
from gpu_profile.runs import record
from gpu_profile.runs.record import RunRecord
from tests.further import keep_first
from tests.invoked import invoke
from tests.unit.analysis.scenarios import Training
from tests.unit.analysis.synthetic import Rank

DETAILS = Path(__file__).parents[2] / "data" / "ncu" / "details.csv"
"""Of ncu 2025.3.1 on an H100, without most of its metrics: three kernels of a CUDA C++ program."""
KERNELS = {
    "copy_strided(const float *, float *, int, int)": (65536, 1, 1, 256, 1, 1),
    "iterate(float *, int, int)": (65536, 1, 1, 256, 1, 1),
    "few_blocks(float *, int)": (8, 1, 1, 256, 1, 1),
}
SHAPES = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
NCU = """
for word; do case $word in --export=*) out=${word#*=};; --log-file=*) log=${word#*=};; esac; done
if [ "$1" = --import ]; then cat DETAILS; exit; fi
echo '==PROF== Connected to process 1' >"$log"
if [ -n "$NCU_ERROR" ]; then echo "==ERROR== $NCU_ERROR" >>"$log"; exit 1; fi
echo measured >"$out"
""".replace("DETAILS", str(DETAILS))


def layer(rank: Rank) -> None:
    """Three kernels, of which one is launched with few and with many iterations."""
    copy, iterate, few = KERNELS
    rank.kernel(400, copy)
    rank.kernel(330, iterate)
    rank.kernel(100, iterate)
    rank.kernel(200, few)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of two ranks, whose kernels have grids."""
    training = Training(ranks=2, steps=6, layers=3, kernel_us=10, layer=layer, transfer_us=9000)
    report = training.save(tmp_path_factory.mktemp("drill"))
    with sqlite3.connect(report) as database:
        for name in SHAPES:
            database.execute(f"ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN {name} INT")
        columns = ", ".join(f"{name} = ?" for name in SHAPES)
        which = "WHERE demangledName = (SELECT id FROM StringIds WHERE value = ?)"
        for number, (kernel, shape) in enumerate(KERNELS.items(), 9000):
            short = kernel.partition("(")[0]
            database.execute("INSERT INTO StringIds VALUES (?, ?)", (number, short))
            words = f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET {columns}, shortName = ? {which}"
            database.execute(words, (*shape, number, kernel))
    database.close()
    return report


@pytest.fixture
def run(report: Path, tmp_path: Path) -> Path:
    directory = tmp_path / "train-1"
    directory.mkdir(mode=0o700)
    (directory / "rank0.node.nsys-rep").write_bytes(b"recorded")
    shutil.copy(report, directory / "rank0.node.sqlite")
    resources = {"nodes": 1, "gpus_per_node": 0, "tasks_per_node": 1}
    made = RunRecord(
        id="train-1",
        launcher="host",
        command=("sh", "-c", "echo hello"),
        phase="done",
        cleaned=True,
        spec={"resources": resources, "env": []},
    )
    record.save_run(made, directory)
    return directory


def drill(run: Path, *words: str, **env: str) -> Result:
    return invoke(
        "drill", "--run=train-1", *words, directory=run, REPORT_DIR=str(run.parent), **env
    )


def plan_of(run: Path, top: int) -> DrillPlan:
    with open_report(str(run / "rank0.node.sqlite")) as database:
        plan: DrillPlan = plan_drill(top).partial(database, Scope())[0]
        return plan


def test_kernels_are_found_by_name_grid_and_place(run: Path) -> None:
    """A step launches copy, iterate, a short iterate and few, thrice; the first step is skipped."""
    plan = plan_of(run, 4)
    rows = [
        (each.short_name, each.times, each.place, each.offset, each.ns) for each in plan.kernels
    ]
    assert rows == [
        ("copy_strided", 3, 1, 0, 400_000),
        ("iterate", 3, 2, 1, 330_000),
        ("few_blocks", 3, 4, 3, 200_000),
        ("iterate", 3, 3, 2, 100_000),
    ]
    assert (plan.kernels[2].grid, plan.kernels[2].block) == ((8, 1, 1), (256, 1, 1))
    assert (plan.step, plan.skip, plan.count) == (1, 12, 4)
    assert not any("nccl" in each.name.lower() for each in plan_of(run, 50).kernels)
    options = list_ncu_options(plan)
    assert "--kernel-name=regex:^(copy_strided|few_blocks|iterate)$" in options
    alone = list_ncu_options(dataclasses.replace(plan, devices=1))
    assert {*options} - {*alone} == {"--devices=0"}  # one report of two ranks, as of torchrun


def test_the_command_runs_again_under_ncu_and_the_answer_is_kept(
    run: Path, tmp_path: Path, fake_tool: Callable[..., Callable[[], list[list[str]]]]
) -> None:
    calls = fake_tool("ncu", NCU)
    done = drill(run)
    assert done.returncode == 0, done.stderr
    assert calls()[0][-2:] == ["-c", "echo hello"]
    assert "--clock-control=none" in calls()[0]
    lines = done.stdout.splitlines()
    assert lines[0] == "1. copy_strided(const float *, float *, int, int)"
    assert "3 times; grid 65536x1x1, block 256x1x1" in lines[1]
    assert lines[2].startswith(
        "   409.2 us under ncu, 400.0 us recorded; compute 6 % and memory 83"
    )
    assert lines[2].endswith("limited by memory")
    assert "ncu (up to 77 %): This kernel has uncoalesced global accesses" in lines[3]
    limits = [line.rpartition("limited by ")[2] for line in lines if "limited by" in line]
    assert limits == ["memory", "compute", "latency: neither roof is near"]
    assert "ncu: This kernel grid is too small" in done.stdout
    rows = json.loads((run / "drill.json").read_text())["drill"]
    assert [row["Compute (%)"] for row in rows] == [5.53, 98.1, 0.13]
    assert [path.name for path in run.parent.glob("*-*")] == ["train-1"]
    page = tmp_path / "page.html"
    words = ("html", "--run=train-1", f"--output={page}")
    assert not invoke(*words, directory=run, REPORT_DIR=str(run.parent)).returncode
    assert "ncu: compute 6 %, memory 83 % of the roof, limited by memory" in page.read_text()


@pytest.mark.parametrize(
    ("words", "env", "code", "what"),
    keep_first(
        3,
        [
            ((), {"NCU_ERROR": "ERR_NVGPUCTRPERM - x"}, 3, "lets only root read GPU counters"),
            ((), {"NCU_ERROR": "Failed to x"}, 6, "ncu measured nothing: Failed to x"),
            (("--rank=7",), {}, 2, "--rank 7 has no kernels. These ranks have: 0, 1"),
            (("--top=0",), {}, 2, "--top 0 leaves no kernel to measure. Use --top 1 or more"),
            (("--on=mpijob",), {}, 2, "a run of mpijob is not started again under ncu"),
            (("--", "train", "--token=***"), {}, 2, "hides a secret of its command"),
        ],
    ),
)
def test_what_cannot_be_measured_is_one_line(
    run: Path,
    fake_tool: Callable[..., object],
    words: tuple[str, ...],
    env: dict[str, str],
    code: int,
    what: str,
) -> None:
    fake_tool("ncu", NCU)
    done = drill(run, *words, **env)
    assert (done.returncode, what in done.stderr) == (code, True), done.stderr
    assert not (run / "drill.json").exists()


def test_variables_and_mounts_of_the_run_are_asked_for(run: Path) -> None:
    facts = json.loads((run / "run.json").read_text())
    for key, words, what in (
        ("env", ["HF_HOME"], "--env HF_HOME=VALUE"),
        ("mounts", ["/data:/data"], "had --mount /data:/data"),
    ):
        spec = {**facts["spec"], key: words, "resources": "damaged"}
        (run / "run.json").write_text(json.dumps({**facts, "spec": spec}))
        done = drill(run)
        assert (done.returncode, what in done.stderr) == (2, True), done.stderr
    (run / "run.json").write_text(json.dumps({**facts, "handle": "deployment://team/web"}))
    assert "a run of deployment is not started again under ncu" in drill(run).stderr
    (run / "run.json").write_text(json.dumps(facts))
    (run / "rank0.node.sqlite").write_bytes(b"damaged")
    assert drill(run).returncode == 6
