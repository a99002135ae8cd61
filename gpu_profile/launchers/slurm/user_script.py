"""Run a user's own sbatch script as it is, with the ranks that it starts under nsys."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from gpu_profile.errors import SettingsError
from gpu_profile.job import Job, NsysPlan
from gpu_profile.launchers.slurm.shell_text import HEAD, WAIT
from gpu_profile.launchers.slurm.spelling import ask_warning, quote_directive
from gpu_profile.manifest.batch_script import BatchScript
from gpu_profile.manifest.documents import compare_texts
from gpu_profile.nsys.rank_wrapper import rank_options

SCRIPT = "script"
"""The name of the user's script in the job's directory."""
_SHELL = "#!/bin/bash"
_TO_SCRIPT = re.compile(r"(?:R?B|BR?):(?:SIG)?([A-Z]+\d?|\d+)(?:@\d+)?$")
"""A value of --signal that goes to the batch script: `B:USR1@300`.

https://slurm.schedmd.com/sbatch.html#OPT_signal
"""
_STOPPING = """\
rm -f "$run"/.step-*

# {warned} USR2: `invoke stop`. Steps are ended first, so that
# nsys finalises, and then all else that runs. A step is signalled once, and again where scancel
# fails: Slurm lists a step before its node knows it, and scancel then says "Invalid job id".
step=
finish() {{
    signalled=1
    echo "$1" >"$run/ended"
    [ -n "$step" ] || exit 143
    signalled_steps=" "
    while steps=$(squeue --noheader --steps --jobs="$SLURM_JOB_ID" --format=%i |
        sed -n '/\\.[0-9]/p') && [ -n "$steps" ]; do
        for each in $steps; do
            case $signalled_steps in *" $each "*) continue ;; esac
            [ -n "$(scancel --signal=TERM "$each" 2>&1)" ] ||
                signalled_steps="$signalled_steps$each "
        done
        sleep 1
    done
    kill -TERM -- "-$step" 2>/dev/null
}}
trap {near}
trap 'finish "stopped"' USR2
"""
_NEAR = """'finish "time limit"' USR1"""
_END = """
[ ! -e "$run/ended" ] || while kill -0 -- "-$step" 2>/dev/null; do sleep 1; done
name={name}
set -- "$run"/rank[0-9]*
[ -e "$1" ] || echo "gpu-profile: no rank was seen: write srun before the program in $name"
[ -e "$run/ended" ] || echo "exit code $code" >"$run/ended"
exit "$code"
"""


@dataclass(frozen=True, kw_only=True)
class UserScript:
    """The batch script that runs a user's own. `nsys` is the path that settings name, or empty."""

    script: BatchScript
    nsys: str = ""
    sbatch_args: tuple[str, ...] = ()

    def render(self, job: Job, plan: NsysPlan, directory: str) -> str:
        """Return the script for sbatch: the user's #SBATCH lines, ours, and how theirs is run."""
        # The lines that sbatch reads are for bash; the user's script keeps its own shell.
        header = "".join(f"{line}\n" for line in (_SHELL, *self.script.header[1:]))
        return f"{header}{self._render_added(job, plan, directory)}"

    def compare(self, job: Job, plan: NsysPlan, directory: str) -> str:
        """Return the difference of the user's header and the script for sbatch."""
        before = "".join(f"{line}\n" for line in self.script.header)
        return compare_texts(self.script.name, before, self.render(job, plan, directory))

    def _render_added(self, job: Job, plan: NsysPlan, directory: str) -> str:
        ours = "".join(f"#SBATCH {line}\n" for line in self._list_directives(directory))
        head = HEAD.format(run=shlex.quote(directory))
        call = " \\\n    ".join(map(" ".join, self._list_call(job, plan)))
        what = f"# Runs {self.script.name} as it is; srun, mpirun and torchrun in it start nsys."
        # set -m: the script gets a process group of its own, which the traps end with all that it
        # started.
        run = f"{what}\nset -m\n{call} &\nset +m\n"
        end = _END.format(name=shlex.quote(self.script.name))
        return f"{ours}\n{head}{self._render_stop()}\n{run}{WAIT}{end}"

    def _list_directives(self, directory: str) -> Iterator[str]:
        if "%" in directory:
            raise SettingsError(f"SLURM_DIR {directory} holds a %", "Slurm replaces it in paths")
        output = quote_directive(f"{directory}/output.log")
        if not self.script.find_option("comment"):
            yield "--comment=gpu-profile"
        yield f"--output={output}"
        if self.script.find_option("error"):
            yield f"--error={output}"
        yield "--open-mode=append"
        if self.sbatch_args:
            yield " ".join(map(quote_directive, self.sbatch_args))
        warning = ask_warning(self.script.find_option("time"))
        if warning and not self.script.find_option("signal"):
            yield warning

    def _render_stop(self) -> str:
        """Return the traps. A signal that the user's script asked sbatch for is passed on to it."""
        signal = _TO_SCRIPT.match(self.script.find_option("signal").upper())
        if signal is None:
            return _STOPPING.format(warned="USR1: the time limit is near.", near=_NEAR)
        name = signal[1]
        if name in {"USR2", "12"}:
            what = f"{self.script.name} has --signal={signal[0]}, and `stop` sends USR2"
            raise SettingsError(what, "Use USR1 in a copy")
        near = f"""'signalled=1; kill -s {name} "$step"' {name}"""
        return _STOPPING.format(warned=f"{name}: the script's own.", near=near)

    def _list_call(self, job: Job, plan: NsysPlan) -> Iterator[tuple[str, ...]]:
        carrier, nsys = job.carrier, job.carrier.nsys if job.carrier else self.nsys
        yield ("python3", '"$run/batch_shims.py"', *_list_inside(job))
        if nsys:
            yield (shlex.quote(f"--nsys={nsys}"),)
        if carrier:
            yield (shlex.quote(f"--python={carrier.python}"),)
        yield rank_options(job, plan, output='"$run"', quote=shlex.quote)
        yield ("--", f'"$run/{SCRIPT}"', *map(shlex.quote, self.script.words))


def _list_inside(job: Job) -> tuple[str, ...]:
    """Return the folders that a container of the script's own has to see."""
    carried = (shlex.quote(f"--mount={job.carrier.directory}"),) if job.carrier else ()
    return ('--mount="$run"', *carried)
