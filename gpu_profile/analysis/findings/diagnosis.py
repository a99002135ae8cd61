"""The findings of a run, and their forms: text, JSON and a table."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from gpu_profile.analysis.findings.finding import Finding, drop_lone_rank
from gpu_profile.analysis.findings.overview import Overview
from gpu_profile.analysis.findings.requests.join import RequestFacts
from gpu_profile.analysis.findings.table import RULES
from gpu_profile.analysis.replay.plan.plan import Plan
from gpu_profile.printable import name_program, printable
from gpu_profile.table import Column, Table

COLUMNS = (
    Column("Kind"),
    Column("Ranks"),
    Column("Cause"),
    Column("Per Step", "ms", 3),
    Column("At Most", "ms", 3),
    Column("Evidence"),
    Column("Advice"),
)


@dataclass(frozen=True)
class Diagnosis:
    """`findings`, those of the plan first, in its order; `unjudged`: what could not be judged, and
    why; `overview`: start-up and step times. `plan`: what to do first, or why that is not known.
    `requests`: of a log of the server's requests.
    """

    findings: tuple[Finding, ...]
    unjudged: tuple[str, ...]
    overview: Overview = field(default_factory=Overview)
    plan: Plan | str = ""
    requests: RequestFacts | None = None

    def with_cost(self, cost: str) -> "Diagnosis":
        """Add the cost of tracing to the findings about launches.

        `cost` is the text of runs.baseline.describe_cost(), "" if no baseline was measured.
        """
        if not isinstance(self.plan, str) and self.plan.host_factor is not None:
            return self  # it is subtracted
        added = f"tracing adds to this: {cost or 'how much, --baseline tells'}"
        with_cost = {kind for kind, rule in RULES.items() if rule.holds_tracing_cost}
        findings = list(self.findings)
        for place, finding in enumerate(findings):
            if finding.kind in with_cost:
                findings[place] = replace(finding, evidence=(*finding.evidence, added))
        return replace(self, findings=tuple(findings))

    def with_texts(self, change: Callable[[str], str]) -> "Diagnosis":
        """The diagnosis with `change` applied to each text that may hold a name of the report."""
        findings = tuple(finding.with_texts(change) for finding in self.findings)
        return replace(self, findings=findings, unjudged=tuple(map(change, self.unjudged)))

    def without_lone_rank(self) -> "Diagnosis":
        """The diagnosis for readers: in a run of rank 0 alone no text names it."""
        if not self.overview.is_alone:
            return self
        findings = tuple(
            replace(
                finding,
                ranks=(),
                evidence=tuple(filter(None, map(drop_lone_rank, finding.evidence))),
            )
            for finding in self.findings
        )
        return replace(self, findings=findings, unjudged=tuple(map(drop_lone_rank, self.unjudged)))

    def to_json(self) -> str:
        """The findings and the plan, as the schema "findings" describes them."""
        document = {
            "findings": [finding.as_json() for finding in self.findings],
            "unjudged": list(self.unjudged),
            **self.overview.describe_step(),
            **self.describe_plan(),
            **({"requests": self.requests.as_json()} if self.requests else {}),
        }
        return json.dumps(document, indent=2)

    def describe_plan(self) -> dict[str, object]:
        """`plan` for JSON, or null and `why_no_plan`."""
        if isinstance(self.plan, str):
            return {"plan": None, "why_no_plan": self.plan}
        return {"plan": self.plan.as_json()}

    def to_overview(self) -> Iterator[str]:
        """The facts of the run, and of its requests, a line each."""
        yield from self.overview.to_lines()
        yield from self.requests.to_lines() if self.requests else ()

    def to_text(self) -> str:
        """The findings as text; one line if there are none."""
        return "\n".join(self.to_blocks()) + "\n"

    def to_blocks(self, most: int = 0) -> Iterator[str]:
        """A text for each finding (the first `most`; 0: all), then for what could not be judged."""
        answer = self.without_lone_rank()
        shown = answer.findings[:most] if most else answer.findings
        yield from (_format_block(number, finding) for number, finding in enumerate(shown, 1))
        if not self.findings and not any(text.startswith("anything") for text in self.unjudged):
            yield "Nothing found that is worth the time."
        if more_count := len(self.findings) - len(shown):
            yield name_program(f"{more_count} more: invoke diagnose")
        yield from (printable(f"Could not judge {text}.") for text in answer.unjudged)
        yield from self.list_plan_lines()

    def list_plan_lines(self) -> list[str]:
        """The plan: a head and a line for each item; or one line that says why there is none."""
        if not isinstance(self.plan, str):
            return [printable(line) for line in self.plan.to_lines()]
        costs = any(finding.per_step and finding.cost_ms for finding in self.findings)
        return [printable(f"No plan: {self.plan}.")] if self.plan and costs else []

    def to_table(self) -> Table:
        """A table with one row for each finding, for notebooks and CSV. At Most is a step's, too,
        where no replay tells the cost.
        """
        rows = tuple(
            (
                f.kind,
                ", ".join(map(str, f.ranks)),
                f.cause,
                round(f.replayed_ms, 3) if f.per_step and f.replayed_ms is not None else None,
                round(f.at_most_ms, 3) if f.per_step and f.replayed_ms is None else None,
                "; ".join(f.evidence),
                f.advice,
            )
            for f in self.findings
        )
        return Table("findings", COLUMNS, rows)


def _format_block(number: int, finding: Finding) -> str:
    ranks = f" on {', '.join(map(str, finding.ranks))}" if finding.ranks else ""
    cost = ", ".join(filter(None, (finding.cause, finding.describe_cost())))
    head = f"{number}. {finding.kind}{ranks}: {cost}"
    lines = (head, *(f"   - {line}" for line in finding.evidence), f"   > {finding.advice}")
    return "\n".join(map(printable, lines))
