"""What a run ends with: start-up, steps, the largest findings, what is unjudged, the page."""

import json
from dataclasses import asdict
from pathlib import Path

from gpu_profile.analysis.findings import diagnose
from gpu_profile.analysis.findings.diagnose import Diagnosis
from gpu_profile.cli.table import Options
from gpu_profile.runs import baseline
from gpu_profile.runs import record as rundir
from gpu_profile.settings.settings import Settings
from gpu_profile.verbs.reading.findings_and_files import save_page
from gpu_profile.verbs.reading.open_run import reading

MOST_FINDINGS = 3
PAGE = "page.html"


def print_answer(options: Options, chosen: Settings, directory: Path) -> None:
    """Read the run's reports once, write its page (but with --no-html), and print the answer."""
    everything = {"report": (), "scheduler": "", "output": "", "window": 0}
    own = {**options, **everything, "run": str(directory)}
    page = None if options["no_html"] else directory / PAGE
    found = _with_page(own, chosen, page) if page else _alone(own, chosen)
    if options["format"] == "json":
        print(json.dumps(_document(found, directory, page), indent=2))
    else:
        print("\n".join(_lines(found, page)))


def _with_page(options: Options, chosen: Settings, page: Path) -> Diagnosis:
    found: list[Diagnosis] = []
    save_page(options, chosen, page, found.append)
    return found[0]


def _alone(options: Options, chosen: Settings) -> Diagnosis:
    read = reading(options, chosen)
    parts = [answer[0] for answer in read.of([diagnose.FINDINGS])]
    found = diagnose.merge(parts, read.run.alignment.residual_ns or 0)
    return found.with_cost(baseline.said(rundir.load(Path(str(options["run"]))).baseline))


def _lines(found: Diagnosis, page: Path | None) -> list[str]:
    lines = ["", *found.overview.to_lines(), *found.to_blocks(MOST_FINDINGS)]
    return [*lines, *([f"page: {page} (one file, open it in a browser)"] if page else [])]


def _document(found: Diagnosis, directory: Path, page: Path | None) -> dict[str, object]:
    run, facts = rundir.load(directory), found.overview
    return {
        "run": run.id,
        "start_up": asdict(facts.start_up) if facts.start_up else None,
        "step_ms": asdict(facts.step) if facts.step else None,
        "findings": [finding.as_json() for finding in found.findings[:MOST_FINDINGS]],
        "unjudged": list(found.unjudged),
        "cost": dict(run.baseline),
        "page": str(page) if page else None,
    }
