"""Hide what looks like a credential in text that people or files will keep."""

import re

from gpu_profile.credentials import CREDENTIAL, SECRET_WORDS

_HIDDEN = "***"
_NAME = rf"[\w.-]*{SECRET_WORDS}[\w.-]*"
_ASSIGNED = re.compile(rf"(?i)^(-{{0,2}}{_NAME})=(.+)$", re.DOTALL)
_FLAG = re.compile(rf"(?i)^-{{1,2}}{_NAME}$")


def text(line: str) -> str:
    return CREDENTIAL.sub(_HIDDEN, line)


def argv(words: tuple[str, ...]) -> tuple[str, ...]:
    """A command line without the values of flags and assignments named like secrets."""
    hidden: list[str] = []
    for index, word in enumerate(words):
        assigned = _ASSIGNED.match(word)
        if assigned:
            hidden.append(f"{assigned[1]}={_HIDDEN}")
        elif index and _FLAG.match(words[index - 1]) and not word.startswith("-"):
            hidden.append(_HIDDEN)
        else:
            hidden.append(text(word))
    return tuple(hidden)
