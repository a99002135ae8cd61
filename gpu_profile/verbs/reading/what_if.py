"""what-if: the step of a recorded program with a change."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gpu_profile.analysis.findings.diagnose import FINDINGS, find_usual_control, judge_run
from gpu_profile.analysis.findings.diagnosed_report import DiagnosedReport, replay_parts
from gpu_profile.analysis.findings.finding import Finding
from gpu_profile.analysis.findings.table import RULES
from gpu_profile.analysis.replay.changes import Change
from gpu_profile.analysis.replay.run_replay import Replay
from gpu_profile.analysis.replay.shadow.find_shadow import find_shadow
from gpu_profile.analysis.replay.shadow.plain_step import PlainStep
from gpu_profile.analysis.replay.what_if import (
    WhatIf,
    check_faster,
    find_change,
    parse_faster,
    predict_changes,
    scale_bandwidth,
)
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.options.reading import WhatIfOptions
from gpu_profile.cli.terminal import print_tables
from gpu_profile.errors import ReportError, SettingsError
from gpu_profile.verbs.reading.open_run import (
    ReportChoice,
    find_control,
    open_reading,
    tell_missed_control,
)

OF_FINDING = "finding:"


def what_if(options: WhatIfOptions) -> None:
    """Print the step that a replay predicts for each change, and for all of them."""
    faster = _read_faster(options)
    settings, choice = load_settings(options), ReportChoice.from_options(options)
    read = open_reading(choice, settings)
    parts = [answer[0] for answer in read.of([FINDINGS])]
    error_ns = read.run.alignment.residual_ns or 0
    replay = replay_parts(parts, error_ns)
    if isinstance(replay, str):
        what = f"nothing can be predicted: {replay}"
        raise ReportError(what, "`invoke diagnose` says what costs time, and at most how much")
    for text in options.faster:
        check_faster(replay.graph, text)
    control = find_control(choice, settings, options.control_ms)
    causes = _find_causes(options.remove, replay, parts, error_ns, control)
    removed = [replace(cause, text=f"without {cause.text}") for cause in causes]
    control_ms = find_usual_control(parts, error_ns, replay, control.ms)
    control_ms = control_ms or control.find_ms(replay.step_ms)
    shadow = find_shadow(replay, control_ms, control.callback_ns, control.phases)
    if shadow:
        tell_missed_control(options.control_ms, shadow.step_ms)
    _print_answer(predict_changes(replay, [*removed, *faster], shadow), options.format)


def _read_faster(options: WhatIfOptions) -> list[Change]:
    """The changes of --faster and --bandwidth. Raises SettingsError where no flag names any."""
    faster = [parse_faster(text) for text in options.faster]
    faster += [scale_bandwidth(options.bandwidth)] if options.bandwidth != 1 else []
    if not options.remove and not faster:
        hint = "Use --remove 'host pauses', --remove finding:1, --faster 'gemm=2' or --bandwidth 2"
        raise SettingsError("what-if needs a change", hint)
    return faster


def _print_answer(answer: WhatIf, format_: str) -> None:
    if format_ == "json":
        print(json.dumps(answer.as_json(), indent=2))
    elif format_ == "text":
        print("\n".join(answer.to_lines()))
    else:
        print_tables([answer.to_table()], format_)


def _find_causes(
    names: Sequence[str],
    replay: Replay,
    parts: Sequence[DiagnosedReport],
    clock_error_ns: int,
    control: PlainStep,
) -> Iterator[Change]:
    """The change of each --remove: a finding's by its number, else a plan's by its text. The
    clocks' error and the control, as of judge_run(), decide what a number names.
    """
    of_findings = any(name.startswith(OF_FINDING) for name in names)
    findings = judge_run(parts, clock_error_ns, control).findings if of_findings else ()
    for name in names:
        if name.startswith(OF_FINDING):
            yield _find_edit(name, findings)
        else:
            yield find_change(replay.graph, name)


def _find_edit(name: str, findings: Sequence[Finding]) -> Change:
    number = name.removeprefix(OF_FINDING)
    if not number.isdecimal() or not 1 <= int(number) <= len(findings):
        raise SettingsError(
            f"--remove {name!r}: there are {len(findings)} findings",
            "`invoke diagnose` prints them with their numbers",
        )
    finding = findings[int(number) - 1]
    change = RULES[finding.kind].edit(finding)
    if change is None:
        what = f"--remove {name}: a replay cannot remove {finding.kind}"
        raise SettingsError(what, "Use the number of another finding")
    return change
