"""Read reports and judge them in this process, as the verbs do with a process for each report."""

from collections.abc import Sequence

from gpu_profile.analysis.findings.diagnose import judge_run
from gpu_profile.analysis.findings.diagnosed_report import collect_report_facts
from gpu_profile.analysis.findings.diagnosis import Diagnosis
from gpu_profile.analysis.multi_report.parallel import (
    Analysed,
    collect_partials,
    merge_answers,
)
from gpu_profile.analysis.multi_report.survey import run_of, survey_report
from gpu_profile.analysis.multi_report.work import Notify, ReportSource
from gpu_profile.analysis.replay.collect import collect_replay, join_parts
from gpu_profile.analysis.replay.run_replay import Replay
from gpu_profile.analysis.replay.shadow.plain_step import PlainStep
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Analysis


def diagnose_reports(*databases: Database, control_ms: float = 0.0) -> Diagnosis:
    """Diagnose the reports of one run; finds out ranks and clocks first. `control_ms`: as of
    judge_run().
    """
    run = run_of([survey_report(database) for database in databases])
    scopes = run.join([str(database.path) for database in databases])
    pairs = zip(databases, scopes, strict=True)
    parts = [collect_report_facts(database, scope) for database, scope in pairs]
    return judge_run(parts, run.alignment.residual_ns or 0, PlainStep(control_ms))


def analyse_reports(
    sources: Sequence[ReportSource],
    analyses: Sequence[Analysis],
    *,
    scheduler: str = "",
    workers: int = 0,
    notify: Notify = lambda line: None,
) -> Analysed:
    """The tables of all reports, by collect_partials() and merge_answers()."""
    answers = collect_partials(
        sources, analyses, scheduler=scheduler, workers=workers, notify=notify
    )
    return merge_answers(sources, analyses, answers)


def replay_reports(*databases: Database) -> Replay | str:
    """Prepare the replay of one run's reports, or say on one line why there is none."""
    run = run_of([survey_report(database) for database in databases])
    scopes = run.join([str(database.path) for database in databases])
    pairs = zip(databases, scopes, strict=True)
    parts = [collect_replay(database, scope) for database, scope in pairs]
    return join_parts(parts, run.alignment.residual_ns or 0)
