"""Invoke tasks for the verbs. The rows are in gpu_profile/cli/table.py."""

import errno
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from invoke.collection import Collection
from invoke.context import Context
from invoke.exceptions import Exit, ParseError
from invoke.parser import Parser
from invoke.parser.argument import Argument
from invoke.program import Program
from invoke.tasks import Task

from gpu_profile.cli import usage
from gpu_profile.cli.run_verb import run_verb
from gpu_profile.cli.table import VERBS, Option, Verb
from gpu_profile.errors import GpuProfileError

_NUMBERED = "."
_PLACES = {
    errno.ENOSPC: "Make room",
    errno.EDQUOT: "Make room",
    errno.EACCES: "Ask for the right",
    errno.EPERM: "Ask for the right",
    errno.ENAMETOOLONG: "Shorten it",
    errno.EROFS: "Mount it to be written",
}
"""Errors that the user can fix on the machine, with the hint. They are no bugs of ours."""


def _arguments(verb: Verb) -> Iterator[Argument]:
    """Yield an Invoke argument for each flag.

    Invoke has no positional list: each word of one gets an argument of its own.
    """
    for option in verb.options:
        if option.positional and isinstance(option.default, tuple):
            for number, _ in enumerate(_plain_words(verb, sys.argv[1:])):
                yield _argument(option, f"{option.name}{_NUMBERED}{number}")
        else:
            yield _argument(option, option.name)


def _argument(option: Option, name: str) -> Argument:
    many = isinstance(option.default, tuple) and not option.positional
    return Argument(
        name=name,
        kind=list if many else str if option.positional else type(option.default),
        default=None if option.positional else [] if many else option.default,
        help=option.doc,
        positional=option.positional,
    )


def _words() -> tuple[str, ...]:
    """Return the words behind `--` unchanged: Invoke's own remainder loses the quoting."""
    return tuple(sys.argv[sys.argv.index("--") + 1 :]) if "--" in sys.argv else ()


def _plain_words(verb: Verb, argv: Sequence[str]) -> Iterator[str]:
    """Return the words up to the next verb or `--` that are no flags and no flags' values."""
    names = {other.name for other in VERBS}
    bare = {f"--{option.name}" for option in verb.options if isinstance(option.default, bool)}
    words = iter(argv[argv.index(verb.name) + 1 :] if verb.name in argv else ())
    for word in words:
        if word == "--" or word in names:
            return
        if not word.startswith("-"):
            yield word
        elif "=" not in word and word not in bare:
            next(words, None)


class VerbTask(Task):  # type: ignore[type-arg]
    """An Invoke task that runs a verb.

    An error of ours is printed as one line; any other exception keeps its traceback.
    """

    def __init__(self, verb: Verb) -> None:
        self.verb = verb
        super().__init__(_body(verb), name=verb.name.rpartition(".")[2])

    def get_arguments(self, ignore_unknown_help: bool | None = None) -> list[Argument]:
        return list(_arguments(self.verb))


def _named(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flags by name, with "_" for "-".

    The words of a positional list are joined again.
    """
    named: dict[str, Any] = {}
    for flag, value in flags.items():
        name, numbered, _ = flag.replace("-", "_").partition(_NUMBERED)
        named[name] = (*named.get(name, ()), value) if numbered else value
    return named


def _body(verb: Verb) -> Any:  # noqa: ANN401 - Invoke's own signature
    def body(_context: Context, **flags: Any) -> None:  # noqa: ANN401
        named = _named(flags)
        try:
            run_verb(verb, {**named, "words": _words(), "environ": dict(os.environ)})
        except GpuProfileError as error:
            raise Exit(f"error: {error}", code=error.exit_code) from None
        except KeyboardInterrupt:
            raise Exit("error: interrupted.", code=130) from None
        except BrokenPipeError:  # the reader of our output, such as `head`, has closed the pipe
            sys.stderr.close()
            raise Exit(code=0) from None
        except OSError as error:
            if error.errno not in _PLACES:
                raise
            where = error.filename or named.get("output") or "REPORT_DIR"
            said = f"{where}: {error.strerror}. {_PLACES[error.errno]}"
            raise Exit(f"error: {said}, or choose another place.", code=3) from None

    body.__doc__ = verb.doc
    return body


def _collection() -> Collection:
    root = Collection()
    for verb in VERBS:
        group, _, _ = verb.name.rpartition(".")
        if group and group not in root.collections:
            root.add_collection(Collection(group))
        (root.collections[group] if group else root).add_task(VerbTask(verb))
    return root


def _check(verbs: Collection, argv: Sequence[str]) -> None:
    """Parse the command line as Invoke will. Raises SettingsError if Invoke would refuse it."""
    initial = Program().initial_context
    core = Parser(initial=initial, ignore_unknown=True).parse_argv(list(argv[1:]))
    about = core[0].args["help"].value
    if isinstance(about, str) and about not in verbs.task_names:
        raise usage.unknown_verb(about)
    if not core.unparsed:
        return
    try:
        Parser(initial=initial, contexts=verbs.to_contexts()).parse_argv(core.unparsed)
    except ParseError as error:
        context = error.context or initial
        raise usage.make_usage_error(str(error), context.name or "", context.flags) from None
    except ValueError as error:
        raise usage.no_number(str(error), argv) from None


def _is_invoke(program: Path) -> bool:
    return program.stem in {"invoke", "inv"} or program.parent.name == "invoke"


namespace = _collection()
if _is_invoke(Path(sys.argv[0])):
    try:
        _check(namespace, sys.argv)
    except GpuProfileError as error:
        raise Exit(f"error: {error}", code=error.exit_code) from None
