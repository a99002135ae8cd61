"""The output at the end of a run: start-up, steps, largest findings, open questions, the page."""

import json
from dataclasses import asdict
from pathlib import Path

from gpu_profile.analysis.findings import diagnose
from gpu_profile.analysis.findings.diagnose import Diagnosis
from gpu_profile.cli.options.shared import AnswerOptions
from gpu_profile.runs import baseline, record
from gpu_profile.settings.settings import Settings
from gpu_profile.verbs.reading.open_run import ReportChoice, open_reading
from gpu_profile.verbs.reading.page_file import save_page

MOST_FINDINGS = 3
PAGE = "page.html"


def print_answer(options: AnswerOptions, settings: Settings, directory: Path) -> None:
    """Read the run's reports once, write its page unless --no-html, and print the findings."""
    choice = ReportChoice(run=str(directory))
    page = None if options.no_html else directory / PAGE
    diagnosis = _with_page(choice, settings, page) if page else _alone(choice, settings)
    if options.format == "json":
        print(json.dumps(_document(diagnosis, directory, page), indent=2))
    else:
        print("\n".join(_lines(diagnosis, page)))


def _with_page(choice: ReportChoice, settings: Settings, page: Path) -> Diagnosis:
    diagnoses: list[Diagnosis] = []
    save_page(choice, settings, page, diagnoses.append)
    return diagnoses[0]


def _alone(choice: ReportChoice, settings: Settings) -> Diagnosis:
    read = open_reading(choice, settings)
    parts = [answer[0] for answer in read.of([diagnose.FINDINGS])]
    diagnosis = diagnose.judge_run(parts, read.run.alignment.residual_ns or 0)
    return diagnosis.with_cost(baseline.describe_cost(record.load_run(Path(choice.run)).baseline))


def _lines(diagnosis: Diagnosis, page: Path | None) -> list[str]:
    lines = ["", *diagnosis.overview.to_lines(), *diagnosis.to_blocks(MOST_FINDINGS)]
    return [*lines, *([f"page: {page} (one file, open it in a browser)"] if page else [])]


def _document(diagnosis: Diagnosis, directory: Path, page: Path | None) -> dict[str, object]:
    run, facts = record.load_run(directory), diagnosis.overview
    return {
        "run": run.id,
        "start_up": asdict(facts.start_up) if facts.start_up else None,
        "step_ms": asdict(facts.step) if facts.step else None,
        "findings": [finding.as_json() for finding in diagnosis.findings[:MOST_FINDINGS]],
        "unjudged": list(diagnosis.unjudged),
        "cost": dict(run.baseline),
        "page": str(page) if page else None,
    }
