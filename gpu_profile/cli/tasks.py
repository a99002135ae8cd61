"""The verbs as Invoke tasks, and the console command `gpu-profile`.

No other module imports Invoke. The rows of the verbs are in cli/table.py. Another project's
tasks.py takes the verbs as `gp.build`, `gp.profile`, …:

    from gpu_profile.cli import tasks as gp
    namespace = Collection(own_task)
    namespace.add_collection(gp, name="gp")
"""

import contextlib
import errno
import functools
import os
import re
import sys
from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import Any, NoReturn

from invoke.collection import Collection
from invoke.config import Config
from invoke.context import Context
from invoke.exceptions import Exit, ParseError
from invoke.parser import Parser, ParseResult
from invoke.parser.argument import Argument
from invoke.program import Program
from invoke.tasks import Task

from gpu_profile import __version__
from gpu_profile.cli.early_signals import end_early
from gpu_profile.cli.help_text import usage
from gpu_profile.cli.program import CLONE_ONLY
from gpu_profile.cli.table import VERBS
from gpu_profile.cli.verb import Option, Verb
from gpu_profile.cli.words import NUMBERED, find_plain_words, get_job_words, make_options
from gpu_profile.errors import GpuProfileError
from gpu_profile.printable import PROGRAM

_PLACES = {
    errno.ENOSPC: "Make room",
    errno.EDQUOT: "Make room",
    errno.EACCES: "Ask for the right",
    errno.EPERM: "Ask for the right",
    errno.ENAMETOOLONG: "Shorten it",
    errno.EROFS: "Mount it to be written",
}
"""Errors that the user can fix on the machine, with the hint. They are no bugs of ours."""
_ANSWERED = ("list", "version", "complete", "print-completion-script")
"""Invoke's options that print something and run no verb."""
_LISTS = re.compile(r"-\w*l|--(?:list|complete|print-completion)")
"""Begins of options that print a list of verbs; -l may stand among other letters."""


def _make_arguments(verb: Verb) -> Iterator[Argument]:
    """Yield an Invoke argument for each flag of a verb that the command line names.

    Invoke has no positional list: each word of one gets an argument of its own.
    """
    if not _is_named(verb, sys.argv):  # its flags are not imported: that takes 30 ms
        return
    for option in verb.options:
        if option.positional and isinstance(option.default, tuple):
            for number, _ in enumerate(find_plain_words(verb, sys.argv[1:])):
                yield _make_argument(option, f"{option.name}{NUMBERED}{number}")
        else:
            yield _make_argument(option, option.name)


def _is_named(verb: Verb, argv: Sequence[str]) -> bool:
    """Return whether the command line may name the verb, such as by `gp.status`."""
    return any(word.endswith(verb.name) for word in argv[1:])  # argv[0] ends with "profile", too


def choose_verbs(verbs: Sequence[Verb], argv: Sequence[str]) -> Sequence[Verb]:
    """Return the verbs that the command line may name; all where it may ask for their list.

    Invoke copies the flags of each verb twice: 5 ms of CPU.
    """
    words = argv[1 : argv.index("--") if "--" in argv else None]
    named = [verb for verb in verbs if _is_named(verb, argv)]
    return verbs if any(map(_LISTS.match, words)) or not named else named


def _make_argument(option: Option, name: str) -> Argument:
    many = isinstance(option.default, tuple) and not option.positional
    argument = Argument(
        name=name,
        kind=list if many else str if option.positional else type(option.default),
        default=None if option.positional else [] if many else option.default,
        help=option.doc,
        positional=option.positional,
    )
    argument.raw_value = None  # it is [] for a list, which Invoke then takes without a value
    return argument


class VerbTask(Task):  # type: ignore[type-arg]
    """An Invoke task that runs a verb.

    An error of ours is printed as one line; any other exception keeps its traceback.
    """

    def __init__(self, verb: Verb) -> None:
        self.verb = verb
        super().__init__(_make_body(verb), name=verb.name.rpartition(".")[2])

    def get_arguments(self, ignore_unknown_help: bool | None = None) -> list[Argument]:
        return list(_make_arguments(self.verb))


def _make_body(verb: Verb) -> Any:  # noqa: ANN401 - Invoke's own signature
    def body(_context: Context, **flags: Any) -> None:  # noqa: ANN401
        # imported here: `--list` takes hardly longer than a bare Invoke program's
        from gpu_profile import signals
        from gpu_profile.cli.run_verb import run_verb
        from gpu_profile.cli.terminal import drop_output, is_output_full

        options = make_options(verb, flags, sys.argv, dict(os.environ))
        signals.install_handlers(replaced=end_early)
        try:
            run_verb(verb.name, options)
        except GpuProfileError as error:
            raise _make_exit(error) from None
        except KeyboardInterrupt:
            raise Exit("error: interrupted.", code=130) from None
        except signals.HungUp:
            raise Exit("error: the terminal is gone.", code=130) from None
        except BrokenPipeError as error:
            raise Exit(code=drop_output(error)) from None
        except OSError as error:
            if not Path().stat().st_nlink:
                raise Exit(
                    "error: this directory was removed. Change to another.", code=2
                ) from None
            if error.errno not in _PLACES:
                raise
            if is_output_full():
                raise Exit(code=drop_output(error)) from None
            where = error.filename or getattr(options, "output", "") or "REPORT_DIR"
            sentence = f"{where}: {error.strerror}. {_PLACES[error.errno]}"
            raise Exit(f"error: {sentence}, or choose another place.", code=3) from None

    body.__doc__ = verb.doc
    return body


def make_collection(verbs: Sequence[Verb]) -> Collection:
    """Return a collection with a task a verb. No argument of the command line is read yet."""
    root = Collection()
    for verb in verbs:
        group, _, _ = verb.name.rpartition(".")
        if group and group not in root.collections:
            root.add_collection(Collection(group))
        (root.collections[group] if group else root).add_task(VerbTask(verb))
    return root


@contextlib.contextmanager
def _one_line_errors() -> Iterator[None]:
    """Turn what Invoke's parser refuses into the end of the program with our one line."""
    try:
        yield
    except ParseError as error:
        context = error.context
        name = (context.name if context else None) or ""
        flags = context.flags if context else ()
        raise _make_exit(usage.make_usage_error(str(error), name, flags)) from None
    except ValueError as error:
        raise _make_exit(usage.no_number(str(error), sys.argv)) from None


def _make_exit(error: GpuProfileError) -> Exit:
    from gpu_profile.redact import hide_url_passwords  # slow, for errors only

    return Exit(f"error: {hide_url_passwords(str(error))}", code=error.exit_code)


def refuse_bad_command_line(verbs: Collection, argv: Sequence[str]) -> None:
    """Parse the command line as Invoke will. Raises Exit with one line if Invoke would refuse it.

    Invoke's own `invoke` has no hook for that, so tasks.py calls this while Invoke imports it. It
    prints our help, too, and raises Exit.
    """
    initial = Program().initial_context
    core = Parser(initial=initial, ignore_unknown=True).parse_argv(list(argv[1:]))
    _answer_help(core, VERBS)
    if core.unparsed:
        with _one_line_errors():
            Parser(initial=initial, contexts=verbs.to_contexts()).parse_argv(core.unparsed)


def _answer_help(core: ParseResult, verbs: Sequence[Verb]) -> None:
    """Print the help that the command line asks for, if any, and raise Exit.

    `core`: Invoke's own options, and the words after them. `help` is no verb, but people type it.
    """
    named = _find_named_help(core, {verb.name for verb in verbs})
    if named is None:
        return
    from gpu_profile.cli.help_text import help as help_text  # for help only

    if not named:
        print(help_text.render_program_help(verbs), end="")
        raise Exit
    verb = next((verb for verb in verbs if verb.name == named), None)
    if verb is None:
        raise _make_exit(usage.unknown_verb(named))
    print(help_text.render_verb_help(verb), end="")
    raise Exit


def _find_named_help(core: ParseResult, names: Set[str]) -> str | None:
    """Return the verb whose help is asked for; "" for that of the program, None for no help."""
    args, words = core[0].args, core.unparsed
    flags = words[: words.index("--")] if "--" in words else words
    if words[:1] == ["help"]:
        return words[1] if len(words) > 1 else ""
    if args["help"].value:
        return args["help"].value if isinstance(args["help"].value, str) else ""
    if {"--help", "-h"} & set(flags):
        return next((word for word in words if word in names), "")
    return None if words or any(args[name].value for name in _ANSWERED) else ""


def _answer_shell(shell: str | None) -> NoReturn:
    """Print the completion script of a shell, or the candidates for the words after `--`.

    Invoke's own completion has no values of flags, and offers verbs among the words of a job.
    """
    from gpu_profile.cli.completion import complete  # slow, for the shell only

    if shell:
        try:
            print(complete.read_script(shell), end="")
        except GpuProfileError as error:
            raise _make_exit(error) from None
    else:
        verbs = [verb for verb in VERBS if verb.name not in CLONE_ONLY]
        run_ids = functools.partial(complete.list_run_ids, os.environ)
        for candidate in complete.list_candidates(get_job_words(sys.argv)[1:], verbs, run_ids):
            print(f"{candidate.word}\t{candidate.doc}" if candidate.doc else candidate.word)
    raise Exit


class HomeConfig(Config):
    """Invoke's configuration, which needs no home directory that this user may read.

    In a container that runs as another user HOME often stays /root; Invoke ends with a traceback.
    """

    def load_user(self, merge: bool = True) -> None:
        with contextlib.suppress(PermissionError):
            super().load_user(merge)


class Console(Program):
    """Invoke's program with the verbs as its tasks, and our one line for a wrong command line."""

    def parse_core_args(self) -> None:
        with _one_line_errors():
            super().parse_core_args()
        shell = self.args["print-completion-script"].value
        if shell or self.args.complete.value:
            _answer_shell(shell)
        _answer_help(self.core, [verb for verb in VERBS if verb.name not in CLONE_ONLY])

    def parse_tasks(self) -> None:
        with _one_line_errors():
            super().parse_tasks()


def main() -> None:
    """Run the console command `gpu-profile`: the verbs that need no clone of the repository."""
    program = Console(
        __version__, namespace, PROGRAM, PROGRAM, binary_names=[PROGRAM], config_class=HomeConfig
    )
    program.run()


def run_clone() -> None:
    """Run ./inv: Invoke's program, which finds the clone's tasks.py."""
    names = ["invoke", "inv"]  # as in Invoke: its completion script is for these
    Program(__version__, name=PROGRAM, binary_names=names, config_class=HomeConfig).run()


namespace = make_collection([verb for verb in VERBS if verb.name not in CLONE_ONLY])
