"""The command line of profile.py, which runs ranks under nsys."""

from collections.abc import Callable, Iterator

from gpu_profile.job import Job, NsysPlan, ProfileSpec

NO_MARKS = "--env-var=GPU_PROFILE_ANNOTATE=none"
"""Leaves the program as it is. An image without marks gives the word to nsys: it has no effect."""
WHOLE = "--env-var=GPU_PROFILE_WHOLE=1"
"""Records to the program's end, as the profile.py of older images does, which give it to nsys."""


def rank_options(
    job: Job, plan: NsysPlan, *, output: str, quote: Callable[[str], str] = str
) -> tuple[str, ...]:
    """Return the options of `profile.py` for a rank that mpirun, srun or torchrun starts.

    `quote` is applied to all words but `output`, which a script names by a variable: `"$run"`.
    """
    if job.ncu:
        return (
            *("--plain", quote(f"--ranks={job.ncu.rank}"), f"--output={output}"),
            *(quote(f"--ncu={option}") for option in job.ncu.options),
            f"--limit={job.ncu.limit_s:g}",
        )
    if job.profile is None:
        timed = (quote("--annotate=steps"),) if job.has_step_times else ()
        return ("--plain", *timed, f"--output={output}")
    ranks = job.profile.ranks
    return (
        quote(f"--ranks={'all' if ranks is None else ','.join(map(str, sorted(ranks)))}"),
        f"--output={output}",
        *map(quote, (*_list_marks(job.profile), *_list_recorder(job.profile))),
        *(quote(f"--first={option}") for option in plan.first),
        *map(quote, plan.options),
    )


def rank_arguments(job: Job, plan: NsysPlan, *, output: str) -> tuple[str, ...]:
    """Return all words after `profile.py` for such a rank: options, `--`, the job's command."""
    return (*rank_options(job, plan, output=output), "--", *job.command)


def local_arguments(job: Job, plan: NsysPlan, *, output: str) -> tuple[str, ...]:
    """Return the words after `profile.py` if it starts the node's ranks itself."""
    processes = (f"--processes={job.resources.tasks_per_node}",) if job.ddp else ()
    return (*processes, *rank_arguments(job, plan, output=output))


def _list_recorder(spec: ProfileSpec) -> Iterator[str]:
    """Yield profile.py's words for when and by what a rank is recorded."""
    if spec.record == "manual":
        yield "--record=manual"
    if spec.tool == "torch":
        yield "--with=torch"


def _list_marks(spec: ProfileSpec) -> tuple[str, ...]:
    """Return profile.py's words for marks in the program, and for the steps to record.

    The level `steps` is its default, and has no word without a window; `none` is an option of nsys
    that profile.py understands. Images of before 2026-11-22 have no option for marks.
    """
    if spec.steps:
        level = "steps" if spec.annotate == "none" else spec.annotate
        return f"--annotate={level}", f"--steps={spec.steps[0]}:{spec.steps[1]}"
    if spec.annotate == "none":
        return (NO_MARKS,)
    marks = () if spec.annotate == "steps" else (f"--annotate={spec.annotate}",)
    return (*marks, WHOLE) if spec.whole else marks
