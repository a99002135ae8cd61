"""batch_shims.py with a fake srun and nsys: which programs of a user's script are recorded."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from batch_shims import ShimSettings
from srun_words import Part, find_program, split_words

from tests.unit.agent.wrapper import ROOT, clean_environment, wrapper_in

SCRIPT = ROOT / "Container-Root" / "agent" / "batch_shims.py"
SRUN = """#!/bin/sh
# srun [-n N] PROGRAM…: N tasks, one after the other
tasks=2
[ "$1" != -n ] || { tasks=$2; shift 2; }
task=0
while [ $task -lt $tasks ]; do
  SLURM_PROCID=$task SLURM_LOCALID=$task SLURM_STEP_NUM_TASKS=$tasks "$@" || exit
  task=$((task + 1))
done
"""
TORCHRUN = f"""#!{sys.executable}
import os, subprocess, sys
for rank in ("0",):
    place = dict(RANK=rank, LOCAL_RANK=rank, WORLD_SIZE="1", LOCAL_WORLD_SIZE="1")
    words = [os.environ.get("PYTHON_EXEC", sys.executable), "-u", *sys.argv[1:]]
    subprocess.check_call(words, env={{**os.environ, **place}})
"""
MPIRUN = """#!/bin/sh
shift 2
OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_LOCAL_RANK=0 exec "$@"
"""
USERS = """#!/bin/bash
set -eu
PATH=$OWN:$PATH   # as `module load` and a log-in shell do
name=$(srun -n 1 bash -c 'echo captured'-$MODULES)
srun -n 1 uname
srun -n 0 apptainer exec a.sif b
srun python3 -c "import os; print(os.environ.get('RANK'), '$name')" | cat
srun -n 1 python3 - 'a b' <<'END'
import sys; print("read", sys.argv[1:])
END
torchrun rank.py
srun -n 1 torchrun rank.py
mpirun -n 1 python3 -c 'print("mpi")'
exit 4
"""


def test_which_programs_of_a_script_are_recorded(tmp_path: Path) -> None:
    own, run, script = tmp_path / "own", tmp_path / "run $(touch pwned) `dir", tmp_path / "script"
    for folder in (own, run):
        folder.mkdir()
    starters = {"srun": SRUN, "torchrun": TORCHRUN, "mpirun": MPIRUN}
    for path, text in ((script, USERS), *((own / name, text) for name, text in starters.items())):
        path.write_text(text)
        path.chmod(0o755)
    (tmp_path / "own.sh").write_text("MODULES=loaded\n")
    (tmp_path / "rank.py").write_text("import os; print('rank', os.environ['RANK'])")
    words = (f"--output={run}", f"--nsys={wrapper_in(tmp_path).nsys}", "--annotate=none", "--")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *words, str(script)],
        env=clean_environment({"OWN": str(own), "BASH_ENV": "$HERE/own.sh", "HERE": str(tmp_path)}),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 4, done.stderr
    assert done.stdout.split("\n") == [
        *(os.uname().sysname, "None captured-loaded", "None captured-loaded", "read ['a b']"),
        *("rank 0", "rank 0", "mpi", ""),
    ]
    assert not (tmp_path / "pwned").exists()
    assert "srun: not recorded: apptainer: nsys would record it" in done.stderr
    assert "srun: not recorded: uname is a program of the system" in done.stderr
    names = (path.name.split(".") for path in run.glob("*.nsys-rep"))
    assert sorted((name[0], *name[2:-1]) for name in names) == [
        *(("rank0",), *(("rank0", str(number)) for number in range(2, 6)), ("rank1",)),
    ]


def test_a_start_that_is_not_recorded_is_told_why() -> None:
    plain = ShimSettings("/r", "", "python3", [], [])
    armed = plain._replace(options=["--record=manual"])
    whys = [plain.explain_unrecorded(*start) for start in ((2, "nsys"), (1, ""), (0, "nsys"))]
    assert whys == ["", "no nsys on this node", "999 starts came before it"]
    assert armed.explain_unrecorded(1, "nsys") == ""
    by_torch = plain._replace(nsys="/nowhere/nsys", options=["--with=torch"])
    assert by_torch.explain_unrecorded(1, by_torch.find_nsys()) == ""
    assert armed.explain_unrecorded(2, "nsys").endswith("reaches the first start alone")


@pytest.mark.parametrize(
    "words",
    [
        "-N 2 -n2 --ntasks 4 --label -K0 a -x b",
        "-lu -pgpu --export ALL,A=1 --kill-on-bad-exit --mpi=pmix a",
        "--container-image nvcr.io#x --container-writable --jobid 7 -w n1 a",
        "-lN 2 --exclusive --immediate=3 -- a",
        "--multi-prog a",
    ],
)
def test_where_the_program_stands_in_the_words_of_srun(words: str) -> None:
    assert words.split()[find_program(words.split())] == "a"


def test_the_parts_of_srun_and_what_their_container_sees() -> None:
    first, second = split_words(
        ["-n1", "a", ":", "--container-image=i", "--container-mounts=/d:/d", "b", ":c"]
    )
    assert (first, second.program) == (Part(["-n1"], ["a"]), ["b", ":c"])
    assert second.mount(["/r"]).options[1] == "--container-mounts=/d:/d,/r:/r"
    assert Part(["--container-mounts", "/d"], []).mount(["/r"]).options[1] == "/d,/r:/r"
    assert Part(["-n1"], []).mount(["/r"]).options == ["-n1", "--container-mounts=/r:/r"]
    assert [part.program for part in split_words(["--help"])] == [[]]
