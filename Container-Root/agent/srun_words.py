"""Find the program in the words of srun, and the container that it starts. Python 3.8, stdlib only.

The options are those of srun(1) 22.05 and 24.11 and of pyxis 0.20.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ALONE = "EHOQVXZhlsuv"
"""Short options without a value. -I, -K and -k have one only in the same word: -K1."""
_IN_ONE_WORD = "IKk"
_LONG_ALONE = {
    *("contiguous", "disable-status", "exact", "help", "hold", "label", "multi-prog"),
    *("no-allocate", "overcommit", "overlap", "oversubscribe", "preserve-env", "pty", "quiet"),
    *("quit-on-interrupt", "reboot", "spread-job", "test-only", "unbuffered", "usage"),
    *("use-min-nodes", "verbose", "version", "whole", "interactive", "external-launcher"),
    *("container-mount-home", "no-container-mount-home", "container-remap-root"),
    *("no-container-remap-root", "container-entrypoint", "no-container-entrypoint"),
    *("container-entrypoint-log", "container-writable", "container-readonly", "share"),
}
_LONG_IN_ONE_WORD = {
    *("bcast", "compress", "exclusive", "immediate", "kill-on-bad-exit", "nice", "no-kill"),
    *("propagate", "resv-ports", "send-libs", "x11", "oom-kill-step"),
}
"""Long options whose value, if they have one, stands after `=`."""
_IMAGE = ("--container-image", "--container-name")
_MOUNTS = "--container-mounts"


class Part(NamedTuple):
    """The words of srun up to ` : `: its options, and the program with its own words."""

    options: Sequence[str]
    program: Sequence[str]

    @property
    def has_container(self) -> bool:
        return any(word.startswith(_IMAGE) for word in self.options)

    @property
    def has_many_programs(self) -> bool:
        """Whether the program is a file that names one for each task (--multi-prog)."""
        return "--multi-prog" in self.options

    def mount(self, folders: Sequence[str]) -> Part:
        """Return the part whose container sees these folders too, under their own paths."""
        mounts = [f"{folder}:{folder}" for folder in folders]
        options = list(self.options)
        for place, word in enumerate(options):
            if word == _MOUNTS:
                options[place + 1] = ",".join([options[place + 1], *mounts])
                return self._replace(options=options)
            if word.startswith(f"{_MOUNTS}="):
                options[place] = ",".join([word, *mounts])
                return self._replace(options=options)
        return self._replace(options=[*options, f"{_MOUNTS}={','.join(mounts)}"])


def split_words(words: Sequence[str]) -> Iterator[Part]:
    """Yield the parts of srun's words, which ` : ` separates in a heterogeneous job."""
    place = find_program(words)
    colon = words.index(":", place) if ":" in words[place:] else len(words)
    yield Part(words[:place], words[place:colon])
    if colon < len(words):
        yield from split_words(words[colon + 1 :])


def find_program(words: Sequence[str]) -> int:
    """Return where the program stands in srun's words; their number where none stands there."""
    place = 0
    while place < len(words):
        word = words[place]
        if word == "--":
            return place + 1
        if not word.startswith("-") or word == "-":
            return place
        place += 2 if _takes_next(word) else 1
    return min(place, len(words))


def _takes_next(word: str) -> bool:
    """Return whether the next word is the option's value: of `-N`, not of `-N2` or `--nodes=2`."""
    if word.startswith("--"):
        name = word[2:]
        return "=" not in name and name not in _LONG_ALONE | _LONG_IN_ONE_WORD
    for place, letter in enumerate(word[1:], 2):
        if letter in _IN_ONE_WORD:
            return False
        if letter not in _ALONE:
            return place == len(word)
    return False
