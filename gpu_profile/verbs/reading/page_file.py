"""Read a run's reports and write their page, for `html` and the answer of a run."""

from collections.abc import Callable
from pathlib import Path

from gpu_profile.analysis.findings import diagnose
from gpu_profile.progress import Progress
from gpu_profile.runs import record
from gpu_profile.settings.settings import Settings
from gpu_profile.table import Table
from gpu_profile.verbs.reading.open_run import (
    ReportChoice,
    find_directory,
    open_reading,
)
from gpu_profile.verbs.reading.run_files import describe_tracing_cost


def save_page(
    choice: ReportChoice,
    settings: Settings,
    output: Path,
    tell_findings: Callable[[diagnose.Diagnosis], None] = lambda diagnosis: None,
) -> Table:
    """Read the chosen reports and write their page (see page.write_page)."""
    from gpu_profile.analysis.page import write_page  # slow import, only for the page

    read = open_reading(choice, settings)
    facts = {} if choice.report else _read_run_facts(find_directory(choice.run, settings))
    return write_page(
        read.sources,
        output,
        title=facts.get("run", "GPU profile"),
        known=facts,
        clock_error_ns=read.run.alignment.residual_ns or 0,
        scheduler=read.scheduler,
        tell=Progress().say,
        tell_findings=tell_findings,
        cost=describe_tracing_cost(choice, settings),
    )


def _read_run_facts(place: Path) -> dict[str, str]:
    """Return facts of run.json for the page, without the machine, its users and paths."""
    run = record.load_run(place)
    facts = {"run": run.id, "launcher": run.launcher, "command": " ".join(run.command)}
    facts |= {"nsys": " ".join(run.nsys), "started": run.started_at}
    cost = run.baseline.get("ratio")
    return facts | ({"cost of the profile": f"{cost:.3f}x"} if cost else {})
