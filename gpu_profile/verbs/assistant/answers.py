"""What an assistant may ask of a run: each answer is that of a verb, as pages of JSON.

A verb runs in a process of its own: it has a time limit, and its output cannot mix with the
protocol's.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu_profile import process
from gpu_profile.analysis.tables.by_name import ANALYSES, OURS
from gpu_profile.command import Command, Result
from gpu_profile.errors import GateError, ReportError, SettingsError, ToolError, did_you_mean
from gpu_profile.runs import record
from gpu_profile.verbs.assistant.pages import format_page, format_table_page

_PACKAGE = Path(__file__).resolve().parents[2]
GIVEN = "given"
"""The run that stands for the reports which the server was started with."""
_CLAIMS = {
    "ms_per_step": "derived: the step less the step replayed without the cause",
    "at_most_ms_per_step": "an upper limit: no replay",
    "evidence": "measured",
    "unjudged": "not judged, with the reason",
}


@dataclass(frozen=True, kw_only=True)
class Answers:
    """The questions of an assistant, about the runs in `report_dir` and the `given` reports.

    `settings_words` are the flags --set and --env-file of the server. A verb may take
    `most_seconds`. Each method returns a JSON object of less than 8 kB, and raises GpuProfileError
    with the verb's own line.
    """

    report_dir: Path
    given: tuple[str, ...] = ()
    settings_words: tuple[str, ...] = ()
    most_seconds: float = 120.0

    def list_runs(self, offset: int = 0) -> str:
        """List the runs that can be read, the latest last. Sizes are in MB."""
        rows = self._ask("reports")["runs"] if self.report_dir.is_dir() else []
        if self.given:
            rows = [*rows, {"Run": GIVEN, "Command": f"reports: {', '.join(self.given)}"}]
        return format_page({}, "runs", rows, offset)

    def diagnose(self, run: str = "", offset: int = 0) -> str:
        """Tell what costs time: findings with ranks, cause, ms a step, evidence and advice; and
        the plan: what to change first, and the step that a replay predicts for it.

        `run` is from list_runs, "" the latest.
        """
        answer = self._ask("diagnose", *self._name_run(run))
        facts = {"claims": _CLAIMS, "unit": "ms a step of an affected rank"}
        facts |= {name: value for name, value in answer.items() if name != "findings"}
        return format_page(facts, "findings", answer["findings"], offset)

    def list_tables(self, offset: int = 0) -> str:
        """List the names of all tables of read_table, with what they show."""
        return format_page({}, "tables", self._ask("stats", "--list")["tables"], offset)

    def read_table(
        self, table: str, run: str = "", by: str = "", filter: str = "", offset: int = 0
    ) -> str:
        """Return the rows of a table. Column names carry their units: "Total Time (ns)".

        `by` is "rank", "device" or "stream"; `filter` a regular expression for texts of rows.
        """
        if table not in OURS and table not in ANALYSES:
            hint = did_you_mean(table, (*OURS, *ANALYSES)) or "list_tables lists them"
            raise SettingsError(f"no table is called {table!r}", hint)
        words = [f"--table={table}", f"--by={by}", f"--filter={filter}"]
        rows = self._read_rows(run, words, table)
        return format_table_page(rows, read_claims(table), offset)

    def list_steps(self, run: str = "", rank: int = -1, offset: int = 0) -> str:
        """List the steps of a rank (-1: of all ranks), with times in ns on the run's clock.

        Steady is 1 for the steps that findings use.
        """
        rows = self._read_rows(run, ["--table=step_trace"], "step_trace")
        chosen = [row for row in rows if rank in (-1, row["Rank"])]
        if rows and not chosen:
            raise SettingsError(f"no step is of rank {rank}", "-1 lists the steps of all ranks")
        return format_table_page(chosen, read_claims("step_trace"), offset)

    def list_events(
        self, start_ns: int, end_ns: int, run: str = "", ranks: Sequence[int] = (), offset: int = 0
    ) -> str:
        """List what ran between two times on these ranks (none: all): kernels, communication,
        copies, CUDA calls and NVTX ranges, by start in ns on the run's clock.
        """
        words = ["--table=event_trace", f"--between={start_ns}:{end_ns}"]
        rows = self._read_rows(run, words, "event_trace")
        chosen = [row for row in rows if not ranks or row["Rank"] in ranks]
        if rows and not chosen:
            others = ", ".join(map(str, sorted({row["Rank"] for row in rows})))
            what = f"no event between these times is of rank {', '.join(map(str, ranks))}"
            raise SettingsError(what, f"There are events of rank {others}")
        return format_table_page(chosen, read_claims("event_trace"), offset)

    def compare_runs(self, base: str, new: str, metric: str = "step", offset: int = 0) -> str:
        """Compare two runs of list_runs: the verdict, the change, the kernels that changed.

        `metric` is "step", "gpu", "range:NAME", "module:NAME" or "kernel:NAME". Times are in ns.
        """
        words = [f"--base={self._find_side(base)}", f"--new={self._find_side(new)}"]
        answer = self._ask("compare", *words, f"--metric={metric}")
        facts = {name: value for name, value in answer.items() if name != "kernels"}
        return format_page(facts, "kernels", answer.get("kernels", []), offset)

    def predict_step(
        self,
        run: str = "",
        remove: Sequence[str] = (),
        faster: Sequence[str] = (),
        bandwidth: float = 1.0,
    ) -> str:
        """Predict the step by a replay with changes: `remove` ["finding:1"] of diagnose, or causes
        of its plan; `faster` ["gemm=2"]: kernels of such names are twice as fast; `bandwidth` 2:
        communication is. The prediction is derived, in ms.
        """
        words = [f"--remove={cause}" for cause in remove]
        words += [f"--faster={change}" for change in faster]
        answer = self._ask("what-if", *self._name_run(run), *words, f"--bandwidth={bandwidth}")
        changes = answer.pop("changes")
        return format_page({"claims": "derived by a replay", **answer}, "changes", changes)

    def _read_rows(self, run: str, words: Sequence[str], table: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._ask("stats", *self._name_run(run), *words)[table]
        return rows

    def _name_run(self, run: str) -> list[str]:
        is_given = run == GIVEN or (not run and not self._has_runs())
        if is_given and self.given:
            return [f"--report={place}" for place in self.given]
        return [f"--run={self._find_run(run)}"]

    def _has_runs(self) -> bool:
        return self.report_dir.is_dir() and bool(record.list_runs(self.report_dir))

    def _find_side(self, run: str) -> str:
        """Return the path of a run for `compare`, which takes one directory or report a run."""
        if run != GIVEN or not self.given:
            return str(self._find_run(run))
        if len(self.given) > 1:
            what = f"{GIVEN!r} stands for {len(self.given)} reports, and a comparison takes one"
            raise SettingsError(what, "Start the server with --report DIRECTORY")
        return self.given[0]

    def _find_run(self, run: str) -> Path:
        """Return the directory of a run in REPORT_DIR. Raises SettingsError for any other path."""
        directories = record.list_runs(self.report_dir)
        names = {directory.name: directory for directory in directories}
        if not run:
            return record.find_run(self.report_dir, "")
        if run not in names:
            raise SettingsError(f"no run {run!r} in {self.report_dir}", "list_runs lists them")
        return names[run]

    def _ask(self, verb: str, *words: str) -> dict[str, Any]:
        if any("\0" in word for word in words):
            raise SettingsError("a text of the question has a null byte", "Ask without it")
        command = self._make_command(verb, words)
        try:
            result = process.run(command, timeout_s=self.most_seconds)
        except ToolError as error:
            what = f"{verb} took more than {self.most_seconds:g} s"
            raise ReportError(what, f"On a terminal `invoke {verb}` has no limit") from error
        # A gate that fails has answered: the new run is slower.
        if result.returncode not in (0, GateError.exit_code):
            raise ReportError(result.last_line.removeprefix("error: ") or _tell_end(verb, result))
        answer: dict[str, Any] = json.loads(result.stdout)
        return answer

    def _make_command(self, verb: str, words: Sequence[str]) -> Command:
        start = (sys.executable, str(_PACKAGE))  # gpu_profile/__main__.py
        return Command(argv=(*start, verb, *words, "--format=json", *self.settings_words))


def _tell_end(verb: str, result: Result) -> str:
    """The line on a verb that was killed, as by a machine without memory."""
    ended = f"{verb} ended with exit code {result.returncode}, and said nothing"
    return f"{ended}: on a terminal `invoke {verb}` may say why"


def read_claims(table: str) -> str:
    """Return what a table claims: "measured", or what of it is derived."""
    return (OURS if table in OURS else ANALYSES)[table].claims


TOOLS: Mapping[str, str] = {
    "list_runs": "List runs",
    "diagnose": "Say what costs time",
    "list_tables": "List tables",
    "read_table": "Read a table",
    "list_steps": "List steps",
    "list_events": "List what ran between two times",
    "compare_runs": "Compare two runs",
    "predict_step": "Predict the step with a change",
}
"""The methods of Answers that an assistant may call, with their titles."""
