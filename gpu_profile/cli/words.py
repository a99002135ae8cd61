"""The words of a command line that Invoke cannot hold: positional lists, and all after `--`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpu_profile.cli.table import VERBS
from gpu_profile.cli.verb import Verb, VerbOptions

NUMBERED = "."
"""What stands between the name of a positional list and the number of a word in it: `runs.0`."""


def get_job_words(argv: Sequence[str]) -> tuple[str, ...]:
    """Return the words after `--` unchanged: Invoke's own remainder loses the quoting."""
    return tuple(argv[argv.index("--") + 1 :]) if "--" in argv else ()


def find_plain_words(verb: Verb, argv: Sequence[str]) -> Iterator[str]:
    """Return the words up to the next verb or `--` that are no flags and no flags' values.

    In another project's tasks.py the verb's name has a prefix, as in `gp.trace-file`.
    """
    verb_word = next((word for word in argv if f".{word}".endswith(f".{verb.name}")), verb.name)
    prefix = verb_word.removesuffix(verb.name)
    names = {f"{prefix}{other.name}" for other in VERBS}
    bare = {f"--{option.name}" for option in verb.options if isinstance(option.default, bool)}
    words = iter(argv[argv.index(verb_word) + 1 :] if verb_word in argv else ())
    for word in words:
        if word == "--" or word in names:
            return
        if not word.startswith("-"):
            yield word
        elif "=" not in word and word not in bare:
            next(words, None)


def make_options(
    verb: Verb, flags: Mapping[str, Any], argv: Sequence[str], environ: Mapping[str, str]
) -> VerbOptions:
    """Return the verb's options from Invoke's flags by name, such as `{"run": "", "mount": []}`.

    The words of a positional list are joined again.
    """
    values: dict[str, Any] = {}
    fields = {option.name: option.field for option in verb.options}
    for flag, value in flags.items():
        name, numbered, _ = flag.replace("_", "-").partition(NUMBERED)
        field = fields[name]
        if numbered:
            values[field] = (*values.get(field, ()), value)
        else:
            values[field] = tuple(value) if isinstance(value, list) else value
    more = {"words": get_job_words(argv), "environ": environ}
    return verb.options_class.from_flags({**values, **more})
