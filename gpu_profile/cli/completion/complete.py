"""Complete a command line that is being typed: verbs, flags, values of flags and run ids.

The scripts in `shells` call `gpu-profile --complete -- gpu-profile profile --on s`. Each line of
the answer is a candidate, a tab and its description. No line means: complete files.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpu_profile.cli.verb import Option, Verb
from gpu_profile.declared.key import Key
from gpu_profile.errors import GpuProfileError, SettingsError
from gpu_profile.runs import record
from gpu_profile.settings import settings
from gpu_profile.settings.lookup import find_settings_file

SHELLS = ("bash", "fish", "zsh")
_PLAIN = re.compile(r"[\w.-]+", re.ASCII)
"""Names that a shell takes as they are: other users may name directories in REPORT_DIR."""
_RUN_FLAGS = ("run", "job", "base", "new")
_BOOLEANS = ("true", "false")
_VERB_HELP = Option("help", False, "the flags of this verb")


@dataclass(frozen=True)
class Candidate:
    """What may stand in the place of the word that is being typed, such as `--on`."""

    word: str
    doc: str = ""


@dataclass(frozen=True)
class Place:
    """What the words before the typed one say: a verb's flags, or the flag that wants a value."""

    options: tuple[Option, ...]
    waiting: Option | None = None
    takes_verbs: bool = True


def read_script(shell: str) -> str:
    """Return the completion script of a shell. Raises SettingsError for another than SHELLS."""
    if shell not in SHELLS:
        raise SettingsError(f"there is no completion for {shell!r}", f"Use {', '.join(SHELLS)}")
    path = Path(__file__).with_name("shells") / f"completion.{shell}"
    return path.read_text(encoding="utf-8")


def list_candidates(
    words: Sequence[str], verbs: Sequence[Verb], list_run_ids: Callable[[], Sequence[str]]
) -> list[Candidate]:
    """Return the candidates for the last of the words, which follow the program's name.

    bash cuts `--on=ss` into three words, and replaces the last only; other shells replace all.
    """
    joined = _join_cut_words(words)
    *before, typed = joined or [""]
    if "--" in before:
        return []
    place = _find_place(before, verbs)
    bash_cut = "=" in words[-2:] and len(joined) < len(words)
    cut = typed.rpartition("=")[0] + "=" if bash_cut else ""
    return [
        Candidate(candidate.word.removeprefix(cut), candidate.doc)
        for candidate in _list_all(typed, place, verbs, list_run_ids)
        if candidate.word.startswith(typed)
    ]


def _join_cut_words(words: Sequence[str]) -> list[str]:
    """Join what bash has cut at "=": `--set`, `=`, `IMAGE`, `=`, `a` is `--set=IMAGE=a`."""
    joined: list[str] = []
    before = ""
    for word in words:
        if joined and "=" in (word, before):
            joined[-1] += word
        else:
            joined.append(word)
        before = word
    return joined


def _find_place(words: Sequence[str], verbs: Sequence[Verb]) -> Place:
    """Follow the words as the parser does: a verb, its flags with their values, the next verb."""
    by_name = {verb.name: verb for verb in verbs}
    place = Place(_list_core_options(verbs))
    for word in words:
        if place.waiting:
            place = replace(place, waiting=None)
        elif word.startswith("-"):
            options = (option for option in place.options if f"--{option.name}" == word)
            place = replace(place, waiting=next(filter(_wants_value, options), None))
        elif word in by_name:
            options_here = by_name[word].options
            positional = any(option.positional for option in options_here)
            place = Place((*options_here, _VERB_HELP), takes_verbs=not positional)
    return place


def _list_core_options(verbs: Sequence[Verb]) -> tuple[Option, ...]:
    names = tuple(verb.name for verb in verbs)
    return (
        Option("help", "", "the flags of a verb", choices=names),
        Option("list", False, "all verbs"),
        Option("print-completion-script", "", "for a shell's start-up file", choices=SHELLS),
        Option("version", False, "the version"),
    )


def _wants_value(option: Option) -> bool:
    return not isinstance(option.default, bool) and not option.positional


def _list_all(
    typed: str, place: Place, verbs: Sequence[Verb], list_run_ids: Callable[[], Sequence[str]]
) -> Iterator[Candidate]:
    """Yield all candidates of a place, whatever they begin with."""
    flag, has_value, value = typed.partition("=")
    if place.waiting:
        yield from _list_values(place.waiting, typed, list_run_ids)
    elif typed.startswith("-") and has_value:
        for option in place.options:
            if flag == f"--{option.name}" and _wants_value(option):
                for candidate in _list_values(option, value, list_run_ids):
                    yield Candidate(f"{flag}={candidate.word}", candidate.doc)
    elif typed.startswith("-"):
        flags = [option for option in place.options if not option.positional]
        yield from (Candidate(f"--{option.name}", option.doc) for option in flags)
    elif place.takes_verbs:
        yield from (Candidate(verb.name, verb.doc) for verb in verbs)


def _list_values(
    option: Option, typed: str, list_run_ids: Callable[[], Sequence[str]]
) -> Iterator[Candidate]:
    """Yield the values that a flag may have, as far as they are known."""
    keys = {key.name: key for key in settings.KEYS}
    if option.name in _RUN_FLAGS:
        run_ids = [name for name in list_run_ids() if _PLAIN.fullmatch(name)]
        yield from (Candidate(name) for name in _spell_as_typed(typed, run_ids))
    elif option.name == "set":
        name, _, _ = typed.partition("=")
        if name in keys and "=" in typed:
            values = _list_setting_values(keys[name])
            yield from (Candidate(f"{name}={value}") for value in values)
        else:
            yield from (Candidate(f"{key.name}=", key.doc) for key in keys.values())
    else:
        values = option.choices or [
            value for name in option.settings for value in _list_setting_values(keys[name])
        ]
        yield from (Candidate(value) for value in values)


def _spell_as_typed(typed: str, run_ids: Sequence[str]) -> Iterator[str]:
    """Yield the run ids. One that begins with what `A_b` becomes in a run id begins with `A_b`."""
    spelled = record.spell_name(typed) if _PLAIN.fullmatch(typed) else ""
    for name in run_ids:
        if spelled and not name.startswith(typed) and name.startswith(spelled):
            end = name.removeprefix(spelled)
            yield typed + (end if typed[-1].isalnum() else end.removeprefix("-"))
        else:
            yield name


def _list_setting_values(key: Key) -> Sequence[str]:
    return _BOOLEANS if key.kind == "bool" else key.choices


def list_run_ids(environ: Mapping[str, str]) -> list[str]:
    """Return the ids of this user's runs, latest first; none where the settings are not valid."""
    try:
        path = find_settings_file("", settings.NAMES).path
        folder = settings.load_settings(path, environ).report_dir
        return [run.name for run in reversed(record.list_runs(Path(folder)))]
    except (GpuProfileError, OSError):
        return []
