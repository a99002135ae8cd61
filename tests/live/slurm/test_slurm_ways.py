"""profile --on slurm by modules, torchrun and a log-in node, and of jobs that Slurm forgot."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.live.hosts import BEAT, Invoked, assert_costed, await_true, error_line
from tests.live.slurm.test_slurm_live import ON
from tests.live.ssh.conftest import Server

pytestmark = [pytest.mark.nsys, pytest.mark.slurm]
Require = Callable[[str, object], None]
SPIN = BEAT + "time.sleep(0.5)\n"


def with_settings(invoked: Invoked, **settings: str) -> Invoked:
    return Invoked(invoked.runs, {**invoked.environ, **settings})


@pytest.fixture
def modules(require: Require, nsys: str, tmp_path: Path) -> Path:
    """A module `tools/1` that brings the only nsys on PATH, and a variable."""
    profile = Path("/etc/profile.d/modules.sh")
    require("slurm", not profile.exists() and "no `module`: install environment-modules")
    path = tmp_path / "modulefiles"
    (path / "tools").mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nsys").symlink_to(nsys)
    (path / "tools" / "1").write_text(
        f"#%Module1.0\nprepend-path PATH {tmp_path / 'bin'}\nsetenv FROM_A_MODULE yes\n"
    )
    return path


def test_modules_bring_nsys_and_variables(invoked: Invoked, modules: Path) -> None:
    invoked = with_settings(invoked, NSYS="", MODULEPATH=str(modules))
    words = ("--modules", "tools/1", "--", "python3", "-c", SPIN + "print(os.environ.get(")
    done = invoked.run("profile", *ON, *words[:-1], words[-1] + "'FROM_A_MODULE'))")
    assert done.returncode == 0, done.stderr
    assert "yes" in (invoked.latest() / "output.log").read_text()
    assert invoked.record()["reports"]


def test_a_module_that_is_not_there_ends_the_job(invoked: Invoked, modules: Path) -> None:
    invoked = with_settings(invoked, MODULEPATH=str(modules))
    done = invoked.run("profile", *ON, "--modules", "nope/9", "--", "true")
    assert done.returncode in (3, 5), done.stderr
    assert "nope/9" in error_line(done)


GLOO = """
import pathlib, sys
import torch, torch.distributed as dist
dist.init_process_group("gloo")
one = torch.ones(4)
dist.all_reduce(one)
met = pathlib.Path(sys.argv[1], f"met-{dist.get_rank()}")
met.write_text(f"of {dist.get_world_size()} sum {one[0].item()}")
dist.destroy_process_group()
"""


# bookworm's torch 1.13 does not understand its own default of these under Python 3.11.
OF_TORCH_1 = {"PET_REDIRECTS": "9:1", "PET_TEE": "9:1"}


def test_torchrun_meets_over_two_nodes(invoked: Invoked, torch: None, tmp_path: Path) -> None:
    """One task a node; torchrun starts the ranks of each, and they meet at the first node."""
    program = tmp_path / "meets.py"
    program.write_text(GLOO)
    invoked = with_settings(invoked, SLURM_TORCHRUN="true", USE_LIBUV="0", **OF_TORCH_1)
    program_words = ("/usr/bin/python3", str(program), str(tmp_path))
    words = ("--nodes=2", "--processes=2", "--trace=nvtx", "--", *program_words)
    done = invoked.run("profile", *ON, *words)
    assert done.returncode == 0, done.stderr
    assert [report["rank"] for report in invoked.record()["reports"]] == [0, 1, 2, 3]
    # Not by their output: lines of four ranks may share one.
    met = [(tmp_path / f"met-{rank}").read_text() for rank in range(4)]
    assert met == ["of 4 sum 4.0"] * 4


def test_over_a_login_node(invoked: Invoked, login: Server) -> None:
    """Every command of Slurm's runs there, and the reports come from there."""
    bare = {name: value for name, value in invoked.environ.items() if name != "SLURM_CONF"}
    settings = {"SLURM_LOGIN": "gpu-host", "SSH_ARGS": f"-F {login.config}"}
    away = Invoked(invoked.runs, {**bare, **settings})
    show = SPIN + "print(os.environ['WORD'])"
    words = ("--processes", "2", "--env", "WORD=it's; $HOME", "--", "python3", "-c", show)
    done = away.run("profile", *ON, *words)
    assert done.returncode == 0, done.stderr
    assert [report["rank"] for report in away.record()["reports"]] == [0, 1]
    assert "it's; $HOME" in (away.latest() / "output.log").read_text()
    assert not list(Path(away.environ["SLURM_DIR"]).glob(".gpu-profile-slurm-*/*"))
    handle = away.detached(*ON, "--", "python3", "-c", BEAT + "time.sleep(600)")
    await_true(lambda: "up" in away.run("logs", "--job", handle).stdout)
    assert away.run("stop", "--job", handle).returncode == 0
    await_true(lambda: "cancelled" in away.run("status", "--job", handle).stdout)
    assert away.run("fetch", "--job", handle).returncode == 0
    assert list(away.latest().glob("*.nsys-rep"))


def test_gpus_are_counted_asked_for_and_given(invoked: Invoked) -> None:
    """They are so to Slurm alone: device files of another kind."""
    show = SPIN + "print(*(os.environ[n] for n in ('RANK', 'CUDA_VISIBLE_DEVICES')))"
    nodes = ("--on", "slurm", "--nodes", "2", "--trace", "osrt")
    done = invoked.run("profile", *nodes, "--", "python3", "-c", show)
    assert done.returncode == 0, done.stderr
    assert [report["rank"] for report in invoked.record()["reports"]] == [0, 1]
    output = (invoked.latest() / "output.log").read_text()
    assert "0 0\n" in output
    assert "1 0\n" in output
    many = invoked.run("profile", *nodes, "--gpus-per-node", "4", "--", "true")
    assert (many.returncode, "4 GPUs asked for, 1 there" in many.stderr) == (3, True)


def test_the_doctor_looks_at_a_node(invoked: Invoked) -> None:
    said = invoked.run("doctor", "--on", "slurm", "--format", "csv")
    assert said.returncode == 0, said.stderr
    assert "nsys,ok," in said.stdout
    assert "space," in said.stdout


def test_a_stop_at_the_very_start_ends_the_job(invoked: Invoked) -> None:
    """The script may not have got to its step yet."""
    handle = invoked.detached(*ON, "--", "python3", "-c", BEAT + "time.sleep(600)")
    await_true(lambda: "running" in invoked.run("status", "--job", handle).stdout)
    assert invoked.run("stop", "--job", handle).returncode == 0
    await_true(lambda: "cancelled" in invoked.run("status", "--job", handle).stdout, 240)


def test_a_waiting_job_leaves_nothing_once_it_is_fetched(invoked: Invoked) -> None:
    handle = invoked.detached(*ON, "--sbatch-args", "--begin=now+1hour", "--", "true")
    assert invoked.run("logs", "--job", handle).returncode == 0
    assert invoked.run("stop", "--job", handle).returncode == 0
    assert "stopped by you" in error_line(invoked.run("fetch", "--job", handle))
    assert not list(Path(invoked.environ["SLURM_DIR"]).glob(".gpu-profile-slurm-*/*"))
    assert "stopped by you" in invoked.run("status", "--job", handle).stdout


def test_what_the_profile_cost(invoked: Invoked) -> None:
    assert_costed(invoked, *ON, "--processes", "2")


def forgotten(handle: str, conf: str) -> bool:
    argv = ["scontrol", "show", "job", handle.removeprefix("slurm://")]
    answer = subprocess.run(argv, env={**os.environ, "SLURM_CONF": conf}, capture_output=True)
    return answer.returncode != 0


def test_jobs_that_the_controller_forgot(forgetful: Invoked, tmp_path: Path) -> None:
    """By the accounts where there are any, otherwise by what the jobs wrote; and then fetched."""
    fine = forgetful.detached(*ON, "--", "python3", "-c", SPIN)
    fails = forgetful.detached(*ON, "--", "python3", "-c", SPIN + "sys.exit(7)")
    waits = forgetful.detached(*ON, "--sbatch-args", "--begin=now+1hour", "--", "true")
    assert forgetful.run("stop", "--job", waits).returncode == 0
    ends = {fine: "succeeded, exit code 0", fails: "failed, exit code 7: task", waits: "cancelled"}
    conf = forgetful.environ["SLURM_CONF"]
    await_true(lambda: all(forgotten(handle, conf) for handle in ends), 180)
    plain = tmp_path / "slurm.conf"
    lines = Path(conf).read_text().splitlines(keepends=True)
    plain.write_text("".join(line for line in lines if "Accounting" not in line))
    for asks in (forgetful, with_settings(forgetful, SLURM_CONF=str(plain))):
        for handle, words in ends.items():
            said = asks.run("status", "--job", handle)
            assert said.stdout.startswith(words), (said.stdout, said.stderr)
    assert forgetful.run("fetch", "--job", fine).returncode == 0
    assert list(forgetful.latest().glob("*.nsys-rep"))
    assert forgetful.run("fetch", "--job", fails).returncode == 5
    elsewhere = Invoked(tmp_path, {**forgetful.environ, "SLURM_CONF": str(plain)})
    refused = elsewhere.run("status", "--job", fine)
    assert refused.returncode == 2
    assert "Slurm knows no job" in error_line(refused)
    assert "succeeded, exit code 0" in forgetful.run("status", "--job", fine).stdout
