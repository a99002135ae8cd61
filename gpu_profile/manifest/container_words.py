"""The words that run a container's own command with its ranks under nsys."""

from gpu_profile.carrier import CARRIED_TO
from gpu_profile.job import Job, NsysPlan
from gpu_profile.manifest.starters import Starter
from gpu_profile.nsys.rank_wrapper import rank_options


def make_container_words(
    job: Job, plan: NsysPlan, starter: Starter, *, hold_s: int, output: str
) -> tuple[str, ...]:
    """Return the words of run_container.py, which stand before the container's own.

    `output` is the directory of the reports in it, `hold_s` how long it waits for their fetch.
    """
    python, nsys = ["python3"], list[str]()
    if job.carrier:
        python, nsys = [*job.carrier.start], [*job.carrier.nsys_words]
    return (
        *python,
        f"{CARRIED_TO}/agent/run_container.py",
        f"--by={starter.value}",
        f"--hold={hold_s}",
        *nsys,
        *rank_options(job, plan, output=output),
        "--",
    )
