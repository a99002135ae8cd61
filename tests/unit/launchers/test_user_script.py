"""A user's own sbatch script: what is added to it, what its header says, what is refused."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from gpu_profile import process
from gpu_profile.errors import SettingsError
from gpu_profile.job import Job, NsysPlan
from gpu_profile.launcher import ImageFrom
from gpu_profile.launchers.slurm.launcher import SlurmLauncher
from gpu_profile.launchers.slurm.user_script import UserScript
from gpu_profile.manifest.batch_script import BatchScript, has_mark
from gpu_profile.runs.reports.validate import check_ranks
from gpu_profile.settings.settings import Settings
from tests.invoked import invoke

DATA = Path(__file__).parents[2] / "data" / "scripts" / "torchrun.sbatch"
JOB = Job(name="train-1", command=("train.sbatch",))
PLAN = NsysPlan(options=("--trace=cuda,nvtx",))


def script(text: str, *words: str) -> BatchScript:
    return BatchScript(name="a.sbatch", text=text, mark="#SBATCH", words=words)


def header(*lines: str) -> BatchScript:
    return script("\n".join(["#!/bin/sh", *(f"#SBATCH {line}" for line in lines), "srun a", ""]))


def test_what_is_added_to_a_script(golden: Callable[[str, str], None]) -> None:
    text = DATA.read_text()
    user = UserScript(script=script(text, "--lr", "it's 1"), nsys="/opt/nsys")
    golden("slurm-user.diff", user.compare(JOB, PLAN, "/fsx/runs/train-1"))
    assert not [line for line in text.splitlines() if "srun" in line and line in user.script.header]


@pytest.mark.parametrize(
    ("lines", "nodes", "gpus"),
    [
        (("--nodes=2", "--gres=gpu:8"), 2, 8),
        (("-N 2-4 -n 8", "--gres=shard:1,gpu:a100:4(S:0)"), 2, 4),
        (("-N2", "--gpus-per-node=h100:8"), 2, 8),
        (("--gres=gpu",), 1, 1),
        (("--gres=none", "-G 4"), 1, 4),
        (("--gres=none",), 1, 0),
        (("--mem=10G # --nodes=9", "--exclusive"), 1, None),
        (('--comment="open',), 1, None),
    ],
)
def test_what_a_header_asks_for(lines: tuple[str, ...], nodes: int, gpus: int | None) -> None:
    assert (header(*lines).count_nodes(), header(*lines).count_gpus()) == (nodes, gpus)


def test_an_image_of_the_settings_is_none_of_the_scripts() -> None:
    settings = Settings(launcher_values={"SLURM_IMAGE": "nvcr.io/a:1"}, report_dir=Path("/fsx"))
    launcher = SlurmLauncher.from_settings(settings)
    assert launcher.images is ImageFrom.SETTINGS
    launcher = launcher.with_script(header("-N 2"))
    assert launcher.images is ImageFrom.NOWHERE
    assert all("nvcr.io" not in str(command.argv) for command in process.plan(launcher.probe(JOB)))


def test_only_lines_before_the_first_command_are_slurms() -> None:
    text = "#!/bin/sh\n\n  # a\n#SBATCH -N 2\necho\n#SBATCH -N 3\n"
    assert script(text).directives == ("-N", "2")
    assert has_mark(text, "#SBATCH")
    assert not has_mark("kind: Pod\n#SBATCH -N 2\n", "#SBATCH")


REFUSED = {
    "array": (header("--array=0-3"), "is an array"),
    "short array": (header("-a 1"), "is an array"),
    "several parts": (header("-N1", "hetjob", "-N2"), "is a heterogeneous job"),
    "no shell": (script("#SBATCH -N1\n"), "first line of a.sbatch names no interpreter"),
    "windows": (script("#!/bin/sh\r\n#SBATCH -N1\r\n"), "end as on Windows"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_script_that_cannot_be_profiled_is_one_line(case: str) -> None:
    refused, said = REFUSED[case]
    with pytest.raises(SettingsError, match=said) as refusal:
        refused.check()
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("line", "trap"),
    [
        ("--signal=B:SIGUSR1@300", "trap 'signalled=1; kill -s USR1 \"$step\"' USR1"),
        ("--signal=B:10", "trap 'signalled=1; kill -s 10 \"$step\"' 10"),
        ("--signal=TERM@60", "trap 'finish \"time limit\"' USR1"),
        ("--time=30", "trap 'finish \"time limit\"' USR1"),
    ],
)
def test_a_signal_that_the_script_asked_for_reaches_it(line: str, trap: str) -> None:
    text = UserScript(script=header(line)).render(JOB, PLAN, "/fsx/runs/train-1")
    assert f"\n{trap}\n" in text
    assert ("--signal=B:USR1@120" in text) == (line == "--time=30")


def test_the_signal_of_stop_is_not_the_scripts() -> None:
    with pytest.raises(SettingsError, match="`stop` sends USR2"):
        UserScript(script=header("--signal=B:USR2@60")).render(JOB, PLAN, "/fsx/runs/train-1")


def test_the_verb_shows_what_is_added_or_refuses_and_submits_nothing(
    tmp_path: Path, fake_tool: Callable[..., Callable[[], list[list[str]]]]
) -> None:
    sbatch = fake_tool("sbatch", "exit 1")
    (tmp_path / "a.sbatch").write_text(DATA.read_text())

    def call(*words: str) -> tuple[int, str]:
        done = invoke("profile", "--manifest=a.sbatch", *words, directory=tmp_path)
        return done.returncode, done.stdout + done.stderr

    code, shown = call("--dry-run", "--", "two words")
    assert (code, "+++ a.sbatch under nsys" in shown) == (0, True), shown
    assert "its output goes to the run's output.log, not to logs/%x-%j.out\n" in shown
    assert """-- "$run/script" 'two words' &""" in shown
    assert "--trace=cuda,nvtx" in shown
    (tmp_path / "b.sh").write_text("#!/bin/sh\n# SBATCH -N1\nsrun a\n")
    done = invoke("profile", "--manifest=b.sh", directory=tmp_path)
    assert (done.returncode, "is a script without #SBATCH lines" in done.stderr) == (2, True)
    for flag, said in (
        ("--time=10", "--time: a.sbatch decides that"),
        ("--nodes=3", "--nodes: a.sbatch decides that"),
        ("--yes", "--yes means nothing for a batch script"),
    ):
        code, shown = call(flag)
        assert (code, said in shown) == (2, True), shown
    assert sbatch() == []


def test_a_rank_that_nobody_knew_of_is_missed_by_its_own_words(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    log.write_text("gpu-profile: no rank was seen: write srun before the program in a.sbatch\n")
    with pytest.raises(Exception, match=r"of rank 0 in .*: no rank was seen: write srun"):
        check_ranks((), (0,), tmp_path)
    log.write_text("[pod/a] gpu-profile: a-0: no rank was seen below sh: there is no report\n")
    with pytest.raises(Exception, match=r"in .*: a-0: no rank was seen below sh: there"):
        check_ranks((), (0,), tmp_path)
    log.write_text("3: profile.py: rank 3: nsys wrote no report: see its own message above\n")
    with pytest.raises(Exception, match="no report of rank 0, 3 in "):
        check_ranks((), (0,), tmp_path)


def test_each_step_of_a_users_script_is_told_once_and_again_where_its_node_does_not_know_it(
    tmp_path: Path, fake_tool: Callable[..., Callable[[], list[list[str]]]]
) -> None:
    said = "scancel: error: Kill job error on job step id 24.1: Invalid job id specified"
    fake_tool("sleep")
    fake_tool("squeue", f'[ -e {tmp_path}/end ] || echo "24.batch 24.0 24.1" | tr " " "\\n"')
    late = f'[ -e "$0.1" ] || {{ touch "$0.1"; echo {said!r} >&2; exit 1; }}; touch {tmp_path}/end'
    calls = fake_tool("scancel", f'[ "$2" = 24.0 ] || {{ {late}; }}')
    text = UserScript(script=header("-N 2")).render(JOB, PLAN, "/fsx/runs/train-1")
    function = text[text.index("finish() {") : text.index("trap 'finish")]
    function = function.replace('kill -TERM -- "-$step" 2>/dev/null', ":")
    lines = (f"run={tmp_path} SLURM_JOB_ID=24 step=24", function, "finish stopped")
    subprocess.run(["bash", "-c", "\n".join(lines)], check=True, timeout=60)
    assert calls() == [["--signal=TERM", f"24.{step}"] for step in (0, 1, 1)]
