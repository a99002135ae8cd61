"""The command line of profile.py, which puts nsys around each rank."""

from gpu_profile.job import Job, NsysPlan


def rank_arguments(job: Job, plan: NsysPlan, *, output: str) -> tuple[str, ...]:
    """The words after `profile.py` that run the job's command, each chosen rank under nsys."""
    if job.profile is None:
        return ("--plain", f"--output={output}", "--", *job.command)
    ranks = job.profile.ranks
    return (
        f"--ranks={'all' if ranks is None else ','.join(map(str, sorted(ranks)))}",
        f"--output={output}",
        *(f"--first={option}" for option in plan.first),
        *plan.options,
        "--",
        *job.command,
    )


def local_arguments(job: Job, plan: NsysPlan, *, output: str) -> tuple[str, ...]:
    """The same where profile.py itself starts the job's processes on one node."""
    processes = (f"--processes={job.resources.tasks_per_node}",) if job.ddp else ()
    return (*processes, *rank_arguments(job, plan, output=output))
