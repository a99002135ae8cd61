"""diagnose, and the answer at the end of a run: start-up, steps, findings, the page."""

import json
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from gpu_profile.analysis.findings import diagnose as findings
from gpu_profile.analysis.findings.diagnosis import Diagnosis
from gpu_profile.analysis.findings.replay_ahead import (
    FIRST,
    REST,
    choose_replay,
    join_answer,
    replay_parts_ahead,
)
from gpu_profile.analysis.findings.requests.join import judge_requests
from gpu_profile.analysis.findings.requests.log import read_request_log
from gpu_profile.analysis.multi_report.readers import Readers
from gpu_profile.analysis.multi_report.workers.count import count_cores
from gpu_profile.analysis.replay.shadow.plain_step import PlainStep
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.options.reading import DiagnoseOptions
from gpu_profile.cli.options.shared import AnswerOptions
from gpu_profile.cli.terminal import print_tables
from gpu_profile.runs import baseline, record
from gpu_profile.settings.settings import Settings
from gpu_profile.verbs.reading.open_run import (
    ReportChoice,
    describe_control,
    describe_tracing_cost,
    find_control,
    open_reading,
    tell_missed_control,
)
from gpu_profile.verbs.reading.page import save_page

MOST_FINDINGS = 3
PAGE = "page.html"


def print_answer(options: AnswerOptions, settings: Settings, directory: Path) -> None:
    """Read the run's reports once, write its page unless --no-html, and print the findings."""
    # nsys wrote these reports in one job, wherever the clocks of its hosts stand.
    choice = ReportChoice(run=str(directory), together=True)
    page = None if options.no_html else directory / PAGE
    diagnosis = _write_and_judge(choice, settings, page) if page else _judge(choice, settings)
    if options.format == "json":
        print(json.dumps(_make_document(diagnosis, directory, page), indent=2))
    else:
        control = baseline.describe_control(directory)
        print("\n".join(_render_lines(diagnosis, control, page)))


def _write_and_judge(choice: ReportChoice, settings: Settings, page: Path) -> Diagnosis:
    diagnoses: list[Diagnosis] = []
    save_page(choice, settings, page, diagnoses.append)
    return diagnoses[0]


def _judge(choice: ReportChoice, settings: Settings) -> Diagnosis:
    run = record.load_run(Path(choice.run))
    diagnosis = _judge_reports(choice, settings, baseline.find_plain_step(run))
    return diagnosis.with_cost(baseline.describe_cost(run.baseline))


def _judge_reports(choice: ReportChoice, settings: Settings, control: PlainStep) -> Diagnosis:
    readers = Readers(scheduler=choice.scheduler, spares_memory=True)
    read = open_reading(choice, settings, readers=readers)
    error_ns = read.run.alignment.residual_ns or 0
    replay_first = partial(replay_parts_ahead, clock_error_ns=error_ns, control=control)
    answers, ahead = read.of_both(readers, FIRST, REST, replay_first)
    parts = [join_answer(answer) for answer in answers]
    # Half of the cores: copies compute some things anew.
    replay = choose_replay(parts, error_ns, count_cores() // 2, ahead)
    return findings.judge_run(parts, error_ns, control, replay)


def _render_lines(diagnosis: Diagnosis, control: tuple[str, ...], page: Path | None) -> list[str]:
    overview = (*diagnosis.overview.to_lines(), *control)
    lines = ["", *overview, *diagnosis.to_blocks(MOST_FINDINGS)]
    if page:
        lines.append(f"page: {page} (one file, open it in a browser)")
    return lines


def _make_document(diagnosis: Diagnosis, directory: Path, page: Path | None) -> dict[str, object]:
    run, facts = record.load_run(directory), diagnosis.overview
    return {
        "run": run.id,
        "start_up": asdict(facts.start_up) if facts.start_up else None,
        **facts.describe_step(),
        **({"token_budget": asdict(facts.budget)} if facts.budget else {}),
        "findings": [finding.as_json() for finding in diagnosis.findings[:MOST_FINDINGS]],
        "unjudged": list(diagnosis.unjudged),
        **diagnosis.describe_plan(),
        "cost": dict(run.baseline),
        "page": str(page) if page else None,
    }


def diagnose(options: DiagnoseOptions) -> None:
    """Print the findings in a run's reports."""
    settings = load_settings(options)
    log = read_request_log(Path(options.requests)) if options.requests else None
    choice = ReportChoice.from_options(options)
    control = find_control(choice, settings, options.control_ms)
    diagnosis = _judge_reports(choice, settings, control)
    diagnosis = diagnosis.with_cost(describe_tracing_cost(choice, settings))
    if not isinstance(diagnosis.plan, str):
        tell_missed_control(options.control_ms, diagnosis.plan.step_ms)
    if log:
        requests = judge_requests(log, diagnosis.overview.iterations)
        diagnosis = replace(diagnosis, requests=requests)
    form = options.format
    if form == "json":
        print(diagnosis.to_json())
    elif form == "text":
        lines = describe_control(choice, settings)
        print("\n".join((*diagnosis.to_overview(), *lines, diagnosis.to_text())))
    else:
        print_tables([diagnosis.to_table()], form)
