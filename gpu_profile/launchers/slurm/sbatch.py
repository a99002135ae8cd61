"""Write the sbatch script of a job. It is plain enough to read, keep and submit by hand."""

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpu_profile.declared.slurm_settings import SlurmSettings
from gpu_profile.errors import SettingsError
from gpu_profile.job import Job, Mount, NsysPlan
from gpu_profile.launchers.agent.job_directory import SAMPLES, list_scripts
from gpu_profile.launchers.slurm.container import Container, mount_itself
from gpu_profile.launchers.slurm.shell_text import HEAD, WAIT
from gpu_profile.launchers.slurm.spelling import ask_warning, quote_directive
from gpu_profile.nsys.rank_wrapper import rank_options
from gpu_profile.remote_host import below_home
from gpu_profile.settings.settings import Settings

_PROBE_MINUTES = (5, 20)  # minutes without and with an image, which may have to be downloaded
COMMENT = "gpu-profile"
"""The comment in Slurm by which our jobs are recognised."""
# A port below those of outgoing connections (32768 and up), and another one for each job of a node.
_MEETING = """\
# The tasks meet at the first node.
MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))
export MASTER_ADDR MASTER_PORT
"""
_LINES = """\
lines=$(wc -l <"$run/output.log")
first=
"""
_MODULES = """\
# Only a log-in shell knows `module`.
command -v module >/dev/null || . /etc/profile
module load {names} || exit 3
"""
_OWN_PYTHON = """\
# The virtual environment of this directory, unless one is active or ./inv made it for itself.
for own in venv .venv; do
    [ -n "${VIRTUAL_ENV-}${CONDA_PREFIX-}" ] || [ ! -f "$own/pyvenv.cfg" ] ||
        [ -f "$own/requirements.txt" ] || PATH=$PWD/$own/bin:$PATH
done
"""
_FINDING = """\
nsys=$(python3 "$run/find_nsys.py"{flag}) || exit 3
"""
_STOPPING = """\
# USR1: the time limit is near. USR2: `invoke stop`. The step is told, so that nsys finalises.
# Slurm lists a step before its node knows it: then scancel says "Invalid job id", and is repeated.
step=
finish() {
    signalled=1
    echo "$1" >"$run/ended"
    [ -n "$step" ] || exit 143
    until [ -n "$(squeue --noheader --steps="$SLURM_JOB_ID.0")" ] &&
        [ -z "$(scancel --signal=TERM "$SLURM_JOB_ID.0" 2>&1)" ]; do
        kill -0 "$step" 2>/dev/null || return
        sleep 1
    done
}
trap 'finish "time limit"' USR1
trap 'finish "stopped"' USR2
"""
_WAITING = """
# Report the task that failed first: srun's code may belong to one that was ended because of it.
failed='s/^srun: error: .*: (tasks? [^:]*): Exited with exit code ([0-9]+)$/\\2 of \\1/p'
if [ "$code" -ne 0 ]; then
    first=$(tail -n "+$((lines + 1))" "$run/output.log" | sed -nE "$failed" | head -n 1)
    [ -z "$first" ] || code=${first%% *}
fi
[ -e "$run/ended" ] || echo "exit code ${first:-$code}" >"$run/ended"
exit "$code"
"""


@dataclass(frozen=True, kw_only=True)
class Script:
    """What an sbatch script asks for besides the job's resources: partition, time, modules."""

    partition: str = ""
    account: str = ""
    time: str = ""
    modules: tuple[str, ...] = ()
    container: Container = field(default_factory=Container)
    torchrun: bool = False
    sbatch_args: tuple[str, ...] = ()
    workdir: str = ""
    nsys: str = ""

    @classmethod
    def from_settings(cls, settings: Settings) -> "Script":
        slurm = settings.of(SlurmSettings)
        return cls(
            partition=slurm.partition,
            account=slurm.account,
            time=slurm.time,
            modules=tuple(slurm.modules.split()),
            container=Container(image=slurm.image, tool=slurm.container),
            torchrun=slurm.torchrun,
            sbatch_args=tuple(shlex.split(slurm.args)),
            workdir=_resolve_workdir(slurm),
            nsys=settings.nsys,
        )

    def on_a_node(self, shared: str, *, gpu: bool) -> tuple[str, ...]:
        """Return the srun words that run a command as a short step of one task."""
        directives = {"partition": self.partition, "account": self.account}
        minutes, mounts = _PROBE_MINUTES[bool(self.container.image)], (mount_itself(shared),)
        resources = ["--gpus-per-node=1"] if gpu else []
        return (
            *("srun", "--nodes=1", "--ntasks=1", "--quiet", f"--time={minutes}"),
            *(f"--{name}={value}" for name, value in directives.items() if value),
            *resources,
            *self.container.srun_options(mounts, ""),
            *self.container.prefix(mounts, "", gpus=gpu),
        )

    def render(self, job: Job, plan: NsysPlan, directory: str) -> str:
        """Return the sbatch script.

        `directory` is the job's own, on a file system that the nodes share.
        """
        modules = _MODULES.format(names=shlex.join(self.modules)) if self.modules else ""
        workdir = f"cd {shlex.quote(self.workdir)} || exit 2\n" if self.workdir else ""
        flag = f" --nsys={shlex.quote(self.nsys)}" if self.nsys else ""
        finding = _FINDING.format(flag=flag) if self._finds_nsys(job) else ""
        step = " \\\n    ".join(map(" ".join, self._make_step(job, plan, directory)))
        parts = (
            "#!/bin/bash\n" + "".join(self._list_directives(job, directory)),
            HEAD.format(run=shlex.quote(directory)),
            _STOPPING,
            modules + workdir + ("" if self.container.image else _OWN_PYTHON) + finding,
            _MEETING,
            f"{_LINES}{step} &\n{WAIT}{_WAITING}",
        )
        return "\n".join(part for part in parts if part)

    def _finds_nsys(self, job: Job) -> bool:
        is_by_nsys = job.profile is not None and not job.is_by_torch
        return is_by_nsys and not self.container.image and not job.carrier

    def _list_directives(self, job: Job, directory: str) -> Iterable[str]:
        if "%" in directory:
            raise SettingsError(f"SLURM_DIR {directory} holds a %", "Slurm replaces it in paths")
        for name, value in self._choose_directives(job, directory).items():
            yield f"#SBATCH --{name}={quote_directive(value)}\n"
        yield "#SBATCH --no-requeue\n"
        if warning := ask_warning(self.time):
            yield f"#SBATCH {warning}\n"
        if self.sbatch_args:
            yield f"#SBATCH {' '.join(map(quote_directive, self.sbatch_args))}\n"

    def _choose_directives(self, job: Job, directory: str) -> Mapping[str, str]:
        resources = job.resources
        directives = {
            "job-name": job.name,
            "comment": COMMENT,
            "output": f"{directory}/output.log",
            # start_program.py writes beside nsys only to a file that is open with O_APPEND, and a
            # requeued job keeps its output.
            "open-mode": "append",
            "nodes": str(resources.nodes),
            "ntasks-per-node": "1" if self.torchrun else str(resources.tasks_per_node or 1),
            "gpus-per-node": str(resources.gpus_per_node or ""),
            "cpus-per-task": str(resources.cpus_per_task or ""),
            "mem": f"{resources.memory_gb}G" if resources.memory_gb else "",
            "time": self.time,
            "partition": self.partition,
            "account": self.account,
        }
        return {name: value for name, value in directives.items() if value}

    def _make_step(self, job: Job, plan: NsysPlan, directory: str) -> Iterable[tuple[str, ...]]:
        """Yield the words of the srun step, one tuple for each line.

        `$run` and `$nsys` are shell variables that the script sets.
        """
        ours = dict.fromkeys(filter(None, (directory, self.workdir)))
        mounts = (*map(mount_itself, ours), *_mount_carrier(job), *job.mounts)
        gpus = bool(job.resources.gpus_per_node)
        inside = self.container.srun_options(mounts, self.workdir, job.env)
        # srun does not inherit --cpus-per-task from the allocation since Slurm 22.05:
        # https://slurm.schedmd.com/srun.html#OPT_cpus-per-task
        # --kill-on-bad-exit: the tasks that wait for a failed one in a collective would otherwise
        # hold the nodes until the time limit.
        yield (
            "srun",
            "--kill-on-bad-exit=1",
            '${SLURM_CPUS_PER_TASK:+--cpus-per-task="$SLURM_CPUS_PER_TASK"}',
        )
        if inside:
            yield tuple(map(shlex.quote, inside))
        prefix = self.container.prefix(mounts, self.workdir, gpus=gpus)
        if prefix:
            yield tuple(map(shlex.quote, prefix))
        if self.torchrun:
            yield _list_torchrun_words(job.resources.tasks_per_node or 1)
        nsys_words = ('--nsys="$nsys"',) if self._finds_nsys(job) else ()
        python: tuple[str, ...] = ("python3",)
        if job.carrier:
            python = tuple(map(shlex.quote, (job.carrier.python, "-E")))
            nsys_words = (shlex.quote(f"--nsys={job.carrier.nsys}"),)
        yield (*python, '"$run/profile_ranks.py"', "--shelter", *nsys_words)
        yield rank_options(job, plan, output='"$run"', quote=shlex.quote)
        yield ("--", *map(self._quote_word, job.command))

    def _quote_word(self, word: str) -> str:
        """Return a quoted word. `/train.py` is in our image; without one it lies in `$run`."""
        name = word.removeprefix("/")
        sample = word.startswith("/") and name in list_scripts(SAMPLES) and not self.container.image
        return f'"$run/{name}"' if sample else shlex.quote(word)


def _mount_carrier(job: Job) -> tuple[Mount, ...]:
    """Return the mount of the carrier's directory under its own path; none without a carrier."""
    if job.carrier is None:
        return ()
    path = job.carrier.directory
    return (Mount(source=Path(path), target=path, read_only=True),)


def _resolve_workdir(slurm: SlurmSettings) -> str:
    """Return the step's working directory; empty means where sbatch is run.

    A container mounts it, which takes an absolute path.
    """
    workdir, image = slurm.workdir, slurm.image
    if not slurm.login:
        return str(Path(workdir).expanduser().absolute()) if workdir or image else ""
    if image and workdir and not workdir.startswith("/"):
        raise SettingsError(f"SLURM_WORKDIR {workdir} is not absolute", "Give its absolute path")
    return below_home(workdir)


# torchrun compares host names to choose the rendezvous host; Slurm's NodeName may differ from the
# host name, so is_host is set.
_AS_HOST = """'exec torchrun --rdzv_conf=is_host="$((SLURM_NODEID == 0))" "$@"'"""


def _list_torchrun_words(processes: int) -> tuple[str, ...]:
    """Return torchrun's words. --nproc_per_node with underscores works in torch 1 too."""
    return (
        *("sh", "-c", _AS_HOST, "torchrun"),
        *('--nnodes="$SLURM_JOB_NUM_NODES"', f"--nproc_per_node={processes}"),
        *('--rdzv_id="$SLURM_JOB_ID"', "--rdzv_backend=c10d"),
        *('--rdzv_endpoint="$MASTER_ADDR:$MASTER_PORT"', "--no_python"),
    )
