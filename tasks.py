"""The user's verbs as Invoke's tasks. The rows are in gpu_profile/verbs; here is only glue."""

import errno
import importlib
import os
import sys
from typing import Any

from invoke.collection import Collection
from invoke.context import Context
from invoke.exceptions import Exit
from invoke.parser.argument import Argument
from invoke.tasks import Task

from gpu_profile.errors import GpuProfileError
from gpu_profile.verbs import VERBS, Option, Verb


def _argument(option: Option) -> Argument:
    many = isinstance(option.default, tuple)
    return Argument(
        name=option.name,
        kind=list if many else type(option.default),
        default=None if option.positional else [] if many else option.default,
        help=option.doc,
        positional=option.positional,
    )


def _words() -> tuple[str, ...]:
    """What stands behind `--`, word for word: Invoke's own remainder loses the quoting."""
    return tuple(sys.argv[sys.argv.index("--") + 1 :]) if "--" in sys.argv else ()


class VerbTask(Task):  # type: ignore[type-arg]
    """Run a verb; show an error of ours as one line, leave a bug its traceback."""

    def __init__(self, verb: Verb) -> None:
        self.verb = verb
        super().__init__(_body(verb), name=verb.name.rpartition(".")[2])

    def get_arguments(self, ignore_unknown_help: bool | None = None) -> list[Argument]:
        return [_argument(option) for option in self.verb.options]


def _body(verb: Verb) -> Any:  # noqa: ANN401 - Invoke's own signature
    def body(_context: Context, **flags: Any) -> None:  # noqa: ANN401
        named = {name.replace("-", "_"): value for name, value in flags.items()}
        module = importlib.import_module(f"gpu_profile.verbs.{verb.module}")
        try:
            getattr(module, verb.function)(
                verb, {**named, "words": _words(), "environ": dict(os.environ)}
            )
        except GpuProfileError as error:
            raise Exit(f"error: {error}", code=error.exit_code) from None
        except KeyboardInterrupt:
            raise Exit("error: interrupted.", code=130) from None
        except BrokenPipeError:  # the reader of our output has seen enough
            sys.stderr.close()
            raise Exit(code=0) from None
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            where = named.get("output") or "REPORT_DIR"
            hint = f"Make room, or choose another place than {where}"
            raise Exit(f"error: no space left on the disk. {hint}.", code=3) from None

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


namespace = _collection()
