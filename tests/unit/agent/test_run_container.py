"""run_container.py with a fake nsys: ranks below mpirun and torchrun, marks, exit codes, hold."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from shim import wrap_mpi_words

from tests.unit.agent.wrapper import ROOT, clean_environment, wrapper_in

SCRIPT = ROOT / "Container-Root" / "agent" / "run_container.py"
MPIRUN = """#!/bin/sh
# mpirun -np 2 [-x NAME] PROGRAM…: two ranks, one after the other
while :; do case $1 in -np | -x) shift 2 ;; *) break ;; esac; done
for rank in 0 1; do
  OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_LOCAL_RANK=$rank OMPI_COMM_WORLD_SIZE=2 \\
    OMPI_COMM_WORLD_LOCAL_SIZE=2 "$@" || exit
done
"""
TORCHRUN = f"""#!{sys.executable}
import os, subprocess, sys
assert os.environ.get("TINI_SUBREAPER") == "1"
for rank in ("0", "1"):
    place = dict(RANK=rank, LOCAL_RANK=rank, WORLD_SIZE="2", LOCAL_WORLD_SIZE="2")
    words = [os.environ.get("PYTHON_EXEC", sys.executable), "-u", *sys.argv[2:]]
    code = subprocess.call(words, env={{**os.environ, **place}})
    if code:
        sys.exit(code)
"""


TINI = """#!/bin/sh
shift
exec "$@"
"""


class Container:
    """A container's words in a directory with a fake nsys, mpirun and torchrun."""

    def __init__(self, directory: Path) -> None:
        self.reports, self.bin = directory / "reports", directory / "bin"
        self.bin.mkdir()
        self.nsys = wrapper_in(directory).nsys
        for name, text in (("mpirun", MPIRUN), ("torchrun", TORCHRUN), ("tini", TINI)):
            (self.bin / name).write_text(text)
            (self.bin / name).chmod(0o755)

    def argv(self, by: str, *words: str, hold: int = 0) -> list[str]:
        ours = (f"--by={by}", f"--hold={hold}", f"--nsys={self.nsys}", f"--output={self.reports}")
        return [sys.executable, str(SCRIPT), *ours, "--annotate=none", "--", *words]

    def environment(self, **environ: str) -> dict[str, str]:
        path = f"{self.bin}{os.pathsep}{os.environ['PATH']}"
        return clean_environment({"PATH": path, "GPU_PROFILE_POD": "train-x", **environ})

    def run(self, by: str, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
        argv, env = self.argv(by, *words), self.environment(**environ)
        return subprocess.run(argv, env=env, capture_output=True, text=True, check=False)

    def ranks(self) -> list[str]:
        return sorted(path.name.split(".")[0] for path in self.reports.glob("*.nsys-rep"))


@pytest.fixture
def container(tmp_path: Path) -> Container:
    return Container(tmp_path)


def test_mpirun_starts_each_rank_under_its_own_nsys(container: Container) -> None:
    done = container.run("mpirun", "mpirun", "-np", "2", "-x", "PATH", "sh", "-c", "exit 0")
    assert (done.returncode, container.ranks()) == (0, ["rank0", "rank1"]), done.stderr


@pytest.mark.further
def test_a_shells_mpirun_and_one_of_a_path_are_found_too(tmp_path: Path) -> None:
    for name, words in (
        ("shell", ("sh", "-c", "mpirun -np 2 sh -c 'exit 0'")),
        ("path", (f"{tmp_path}/path/bin/mpirun", "-np", "2", "true")),
    ):
        (tmp_path / name).mkdir()
        container = Container(tmp_path / name)
        done = container.run("mpirun", *words)
        assert (done.returncode, container.ranks()) == (0, ["rank0", "rank1"]), done.stderr


def test_torchrun_starts_each_rank_under_its_own_nsys(container: Container, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import os, sys; sys.exit(int(os.environ['RANK']) * 7)")
    words = ("tini", "--", "torchrun", "--nproc_per_node=2", str(script))
    done = container.run("torchrun", *words)
    assert (done.returncode, container.ranks()) == (7, ["rank0", "rank1"]), done.stderr
    report = next(container.reports.glob("rank1.*.nsys-rep"))
    assert sys.executable in json.dumps(json.loads(report.read_text()))


def test_a_containers_report_has_the_pods_number_and_its_program_no_new_variables(
    container: Container,
) -> None:
    code = "import os; print('LOCAL_RANK' in os.environ)"
    container.reports.mkdir(mode=0o755)  # as the kubelet makes a directory of the node
    done = container.run("container", sys.executable, "-c", code, PET_NODE_RANK="3")
    assert (done.returncode, container.ranks()) == (0, ["rank3"]), done.stderr
    assert container.reports.stat().st_mode & 0o777 == 0o700
    assert "False" in done.stdout
    assert container.run("container", "false", PET_NODE_RANK="4").returncode == 0  # started again
    assert container.ranks() == ["rank3"]


def test_a_directory_that_the_containers_user_cannot_write_is_one_line(
    container: Container,
) -> None:
    container.reports.write_text("no directory")
    done = container.run("container", "true")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert f"of this container cannot write reports: {container.reports}: " in done.stderr


def test_the_reports_are_held_until_they_are_fetched(container: Container) -> None:
    argv = container.argv("torchrun", "sh", "-c", "exit 3", hold=60)
    with subprocess.Popen(
        argv, env=container.environment(), stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stderr is not None
        lines = [child.stderr.readline() for _ in range(2)]
        (container.reports / ".fetched").touch()
        assert child.wait(30) == 3
    assert "train-x: no rank was seen below sh" in lines[0]
    assert lines[1].startswith("gpu-profile: train-x ended with 3; its reports are in ")


def test_a_stop_reaches_the_program_and_its_report_is_whole(container: Container) -> None:
    started = container.bin / "started"
    argv = container.argv("container", "sh", "-c", f"touch {started}; exec sleep 60")
    with subprocess.Popen(argv, env=container.environment()) as child:
        while not started.exists():
            time.sleep(0.05)
        child.send_signal(signal.SIGTERM)
        assert child.wait(60) == 128 + signal.SIGTERM
    assert container.ranks() == ["rank0"]


@pytest.mark.parametrize(
    ("words", "before", "program"),
    [
        ("-np 2 --allow-run-as-root sh a", "-np 2 --allow-run-as-root", "sh a"),
        ("--mca plm_rsh_agent ssh -x A=b sh", "--mca plm_rsh_agent ssh -x A=b", "sh"),
        ("-bind-to none --unknown value sh -x", "-bind-to none --unknown value", "sh -x"),
        ("-genv I_MPI_DEBUG 5 -ppn 8 ./solve -n 3", "-genv I_MPI_DEBUG 5 -ppn 8", "./solve -n 3"),
        ("--bind-to=core ./a.out", "--bind-to=core", "./a.out"),
        ("--version", "--version", ""),
    ],
)
def test_the_program_in_mpiruns_words(words: str, before: str, program: str) -> None:
    ours = ["wrap"] if program else []
    assert wrap_mpi_words(words.split(), ["wrap"]) == [*before.split(), *ours, *program.split()]


def test_each_program_after_a_colon_is_wrapped() -> None:
    words = wrap_mpi_words(["-n", "1", "./a", ":", "-n", "2", "./b", "x"], ["wrap"])
    assert words == ["-n", "1", "wrap", "./a", ":", "-n", "2", "wrap", "./b", "x"]
