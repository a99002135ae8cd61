"""doctor and counters: what a machine can do, and what to do about the rest."""

import os
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from gpu_profile import process
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.jobs import launcher_of, name_launchers
from gpu_profile.cli.options.machine import CountersOptions, DoctorOptions
from gpu_profile.cli.terminal import ask_user, print_message, print_tables, run_or_raise
from gpu_profile.declared.check import Check
from gpu_profile.doctor import fix_engine, gpu_counters
from gpu_profile.errors import SettingsError, ToolError
from gpu_profile.launcher import ImageFrom, Launcher
from gpu_profile.printable import name_program, printable
from gpu_profile.table import Column, Table

_NARROWEST, _INDENT = 60, 3


def doctor(options: DoctorOptions) -> None:
    """Print what the launcher needs and finds. Raises ToolError if a required part is missing."""
    settings = load_settings(options)
    launcher = launcher_of(settings.launcher, settings)
    if options.fix:
        _repair(launcher, yes=options.yes)
    results = process.drive(launcher.doctor())
    show_checks(results, options.format)
    missing = [check for check in results if check.is_required and not check.ok]
    if missing:
        raise ToolError(f"{missing[0].name}: {missing[0].result or 'missing'}", missing[0].advice)


def show_checks(checks: Iterable[Check], form: str) -> None:
    """Print the checks, as text with their advice below them, whole at any width."""
    checks = list(checks)
    if form == "text":
        width = max(_NARROWEST, shutil.get_terminal_size((100, 40)).columns)
        print_message("\n".join(chain.from_iterable(format_checks(checks, width))))
        return
    rows = tuple(
        (
            check.name,
            "ok" if check.ok else "missing",
            check.result,
            "" if check.ok else name_program(check.advice),
        )
        for check in checks
    )
    columns = (Column("What"), Column("State"), Column("Found"), Column("What to do"))
    print_tables([Table("doctor", columns, rows)], form)


def format_checks(checks: Sequence[Check], width: int) -> Iterator[list[str]]:
    """Yield the lines of each check: name, state and what was found, then what to do."""
    name_width = max((len(check.name) for check in checks), default=0)
    for check in checks:
        head = f"{check.name:{name_width}}  {'ok' if check.ok else 'missing':7}  "
        indent = " " * (_INDENT + 2)
        yield _wrap(printable(check.result), width, head, " " * len(head)) or [head.rstrip()]
        if not check.ok and check.advice:
            yield _wrap(check.advice, width, f"{' ' * _INDENT}> ", indent)


def _wrap(text: str, width: int, first: str, others: str) -> list[str]:
    """Return the text in lines of at most `width`. A path, an address or a flag is never cut."""
    return textwrap.wrap(
        text,
        width,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _repair(launcher: Launcher, *, yes: bool) -> None:
    """Install what the launcher needs on this machine, after showing the commands.

    Does nothing if no package helps: the checks explain why.
    """
    is_root = not hasattr(os, "geteuid") or os.geteuid() == 0
    has_sudo = process.find_program("sudo") is not None
    repair = process.drive(launcher.repair(is_root=is_root, has_sudo=has_sudo))
    if repair is None:
        return
    print(f"{repair.reason}:")
    for command in repair.commands:
        print(f"  {command}")
        for line in command.stdin.splitlines():
            print(f"    | {line}")
    if not ask_user("Do this?", yes=yes):
        raise ToolError("nothing was installed", "`invoke doctor --fix --yes` installs it")
    if is_root:
        process.drive(fix_engine.run_fix(repair.commands))
        return
    for command in repair.commands:  # on the user's terminal, where sudo may ask for a password
        run_or_raise(command, ToolError)


def counters(options: CountersOptions) -> None:
    """Let every user of a host read GPU counters, or undo that, after showing the commands."""
    settings = load_settings(options)
    if options.allow == options.restrict:
        raise SettingsError("counters needs one of --allow and --restrict")
    launcher = launcher_of(settings.launcher, settings)
    place = launcher.host()
    if place is None:
        hosts = name_launchers(lambda other: other.possible_images == {ImageFrom.NOWHERE})
        raise SettingsError("GPU counters are allowed on a host", f"Use --on {hosts}")
    root = (
        _is_root_here(place.host) if options.dry_run else process.drive(gpu_counters.is_root(place))
    )
    change = gpu_counters.allow_counters if options.allow else gpu_counters.restrict_counters
    for command in process.plan(change(place, root=root)):
        print(f"  {command}" + (f"  <<< {command.stdin.strip()}" if command.stdin else ""))
    if options.dry_run:
        return
    if not ask_user("Do this?", yes=options.yes):
        raise ToolError("nothing was changed", "`invoke counters … --yes` does it")
    process.drive(change(place, root=root))
    print(f"{gpu_counters.AFTERWARDS}.")


def _is_root_here(address: str) -> bool:
    """Return whether this user is root on this machine; False for a remote one."""
    if address:
        print("# As root there, the same without sudo.")
        return False
    return hasattr(os, "geteuid") and os.geteuid() == 0
