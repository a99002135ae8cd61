"""AutoSetting: what the value `auto` of a component's setting becomes."""

from collections.abc import Callable
from dataclasses import dataclass

from gpu_profile.declared.key import Values


@dataclass(frozen=True, kw_only=True)
class ProbeAnswers:
    """What this machine answered. `urls` are those that a server answered at all."""

    urls: frozenset[str] = frozenset()
    gpus: bool = False
    base_image: str = ""


def _ask_nothing(_: Values) -> str:
    return ""


@dataclass(frozen=True, kw_only=True)
class AutoSetting:
    """A setting that may be `auto`.

    `choose` returns the value from the answers and the settings, `url` the address to probe (empty
    for none), `why` explains the choice in one line: "cuda where the engine has GPUs, otherwise
    cpu". A choice with `follows_base` follows from the base image alone, so no label records it.
    """

    key: str
    why: str
    choose: Callable[[ProbeAnswers, Values], str]
    url: Callable[[Values], str] = _ask_nothing
    follows_base: bool = False
