"""Read a run's reports and write its page: html, and the answer at the end of a run."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_profile.analysis.activity.load.kept_columns import keep_columns
from gpu_profile.analysis.multi_report.readers import Readers
from gpu_profile.analysis.tables.analysis import Analysis
from gpu_profile.progress import Progress
from gpu_profile.runs import record
from gpu_profile.settings.settings import Settings
from gpu_profile.table import Table
from gpu_profile.verbs.reading.open_run import (
    ReportChoice,
    describe_tracing_cost,
    find_control,
    find_directory,
    open_reading,
)

if TYPE_CHECKING:
    from gpu_profile.analysis.findings.diagnosis import Diagnosis


def save_page(
    choice: ReportChoice,
    settings: Settings,
    output: Path,
    tell_findings: "Callable[[Diagnosis], None]" = lambda diagnosis: None,
) -> Table:
    """Read the chosen reports and write their page (see page.write_page)."""
    columns = Analysis("columns", keep_columns, _no_table)
    readers = Readers((columns,), choice.scheduler, _import_page)
    read = open_reading(choice, settings, readers=readers)
    from gpu_profile.analysis.page import write_page
    from gpu_profile.drill.drilled import read_remarks

    place = None if choice.report else find_directory(choice.run, settings)
    facts = _read_run_facts(place) if place else {}
    return write_page(
        read.sources,
        output,
        title=facts.get("run", "GPU profile"),
        known=facts,
        clock_error_ns=read.run.alignment.residual_ns or 0,
        readers=readers,
        notify=Progress().say,
        tell_findings=tell_findings,
        cost=describe_tracing_cost(choice, settings),
        control=find_control(choice, settings),
        drilled=read_remarks(place) if place else {},
    )


def _read_run_facts(place: Path) -> dict[str, str]:
    """Return facts of run.json for the page, without the machine, its users and paths."""
    run = record.load_run(place)
    facts = {"run": run.id, "launcher": run.launcher, "command": " ".join(run.command)}
    facts |= {"nsys": " ".join(run.nsys), "started": run.started_at}
    cost = run.baseline.get("ratio")
    return facts | ({"cost of the profile": f"{cost:.3f}x"} if cost else {})


def _import_page() -> None:
    """Import what writes the page, which takes 0.3 s, while the workers read; numpy.ma is of
    np.unique and np.median, and takes 0.05 s.
    """
    import numpy.ma  # noqa: F401

    import gpu_profile.analysis.page  # noqa: F401


def _no_table(_parts: Sequence[object]) -> Table:
    return Table("", (), ())
