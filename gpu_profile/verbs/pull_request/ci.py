"""ci: run the base and the change in turns on one machine, and judge the change."""

import contextlib
import functools
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpu_profile import files, process
from gpu_profile.cli.flags import at_least, load_settings
from gpu_profile.cli.options.pull_request import CiOptions
from gpu_profile.cli.paths import output_file
from gpu_profile.cli.terminal import show_commands
from gpu_profile.errors import GateError, ReportError, SettingsError
from gpu_profile.printable import program_name
from gpu_profile.progress import Progress
from gpu_profile.redact import CommandLine
from gpu_profile.runs.record import check_report_dir
from gpu_profile.verbs.jobs.profile import show_plan, strip_values
from gpu_profile.verbs.pull_request.base_tree import BaseTree, find_tree, name_tree, open_tree
from gpu_profile.verbs.pull_request.side_runs import BASE, NEW, TITLES, Side, make_sides, run_sides

if TYPE_CHECKING:  # numpy may begin only when the jobs have ended
    from gpu_profile.analysis.pull_request.result import CiResult

_FEWEST_PAIRS = 3
_OF_OUTPUT = ("result", "format", "output", "dry-run")


def ci(options: CiOptions) -> None:
    """Run pairs of the base and the change, and write what differs.

    Raises GateError if the change is slower than allowed, or with --require-decision if nothing was
    decided.
    """
    output = output_file(options.output, f"ci.{options.format}")
    if options.result:
        _write(_read_result(options), options, output)
        return
    _check(options)
    tree = _find_base(options)
    sides = make_sides(options, tree)
    if options.dry_run:
        _show_plan(options, sides, tree)
        return
    check_report_dir(load_settings(options).report_dir)
    with open_tree(tree) if tree and tree.commit else contextlib.nullcontext():
        directories = run_sides(sides, options.pairs, functools.partial(_check_first, options))
    title = tree.title if tree else options.base_image
    # The jobs had their environment before this: numpy is imported here, with one thread.
    with process.one_math_thread():
        from gpu_profile.verbs.pull_request.judge import judge_pairs

        result = judge_pairs(
            directories[BASE],
            directories[NEW],
            load_settings(options),
            title=title,
            fail_over=options.fail_over,
            fail_over_gpu=options.fail_over_gpu,
        )
        result = replace(result, require_decision=options.require_decision)
        _write(replace(result, repeat=_repeat(options)), options, output)


def _check(options: CiOptions) -> None:
    """Raise SettingsError for flags that contradict, before anything runs."""
    bases = [options.base, options.base_dir, options.base_image]
    if sum(map(bool, bases)) != 1:
        what = "ci compares with one base" if any(bases) else "ci needs a base to compare with"
        raise SettingsError(what, "Use --base main, --base-dir DIR or --base-image IMAGE")
    if not options.words:
        raise SettingsError("ci needs the program to run", "Write its command after --")
    at_least("--pairs", options.pairs, _FEWEST_PAIRS)


def _check_first(options: CiOptions, side: str, directory: Path) -> None:
    """Raise ReportError where the first run of a side cannot be judged: all others were in vain."""
    with process.one_math_thread():  # the environment of later jobs stays as it is
        from gpu_profile.verbs.pull_request.judge import check_steps

        check_steps(side, directory, load_settings(options))


def _find_base(options: CiOptions) -> BaseTree | None:
    """Return where the base's code is; None in an image."""
    if options.base:
        return find_tree(options.base)
    return name_tree(options.base_dir) if options.base_dir else None


def _show_plan(options: CiOptions, sides: Mapping[str, Side], tree: BaseTree | None) -> None:
    """Print the commands of one run of each side, and those that make and remove the base."""
    is_worktree = tree is not None and bool(tree.commit)
    if tree and is_worktree:
        show_commands(tree.add)
    for name in (BASE, NEW):
        print(f"# {TITLES[name]}, {options.pairs} times, in turns with the other")
        side = sides[name]
        job = replace(side.job, name=side.name_run(1))
        show_plan(strip_values(job), side.launcher, carry=False)
    if tree and is_worktree:
        show_commands([tree.remove])


def _read_result(options: CiOptions) -> "CiResult":
    """Return the result of --result, with the command of the flags that are typed here, if any."""
    from gpu_profile.analysis.pull_request.document import MOST_BYTES, read_result

    path = Path(options.result)
    try:
        result = read_result(files.read_text(path, MOST_BYTES))
    except OSError as error:
        raise ReportError(f"--result {path}: {error.strerror}", "Name the file of ci") from error
    required = result.require_decision or options.require_decision
    repeat = _repeat(options) if options.words else ()
    return replace(result, require_decision=required, repeat=repeat)


def _repeat(options: CiOptions) -> tuple[str, ...]:
    """Return the command that repeats this, without values that may be secret."""
    words = [program_name(), "ci"]
    for option in options.list_options():
        value = options.value_of(option)
        if option.name in _OF_OUTPUT or value == option.default:
            continue
        for part in value if isinstance(value, tuple) else [value]:
            text = str(part).partition("=")[0] if option.name == "env" else str(part)
            words.append(f"--{option.name}" if part is True else f"--{option.name}={text}")
    return CommandLine().redact_argv((*words, "--", *options.words))


def _write(result: "CiResult", options: CiOptions, output: Path | None) -> None:
    """Write the result. Raises GateError where the gate fails."""
    from gpu_profile.analysis.pull_request.formats import write_result

    text = write_result(result, options.format)
    if output:
        files.write_output(output, text)
    else:
        sys.stdout.write(text)
    if result.verdict == "regression":
        slower = [str(figure) for figure in result.figures if figure.verdict == "regression"]
        raise GateError(f"the change is slower than allowed: {'; '.join(slower)}")
    if result.fails:
        raise GateError("the comparison is undecided", "; ".join(result.list_needs()))
    if result.verdict == "undecided":
        Progress().say("note: undecided, which passes (exit code 0); --require-decision fails it")
