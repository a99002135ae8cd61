"""Replace settings that are `auto`: the base image, and those of components.

The image records each decision in the label DECIDED, and the next build keeps it until
--rebuild-base. So a passing network fault changes nothing.
"""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass

from gpu_profile.command import Command, Steps, make_engine_command
from gpu_profile.components.table import COMPONENTS
from gpu_profile.declared.auto_setting import ProbeAnswers
from gpu_profile.declared.base_name import is_embedded
from gpu_profile.image import embedded_base
from gpu_profile.image.embedded_base import Recipe
from gpu_profile.redact import split_url
from gpu_profile.settings.settings import Settings

DECIDED = "io.github.gpu-profile.decided"
NVIDIA_BASE = "nvcr.io/nvidia/cuda:13.0.2-devel-ubuntu22.04"
_REGISTRY = "https://nvcr.io/v2/"
_TIMEOUT_S = "4"
_AUTOMATIC = {setting.key: setting for component in COMPONENTS for setting in component.automatic}
_WHY_BASE = "NVIDIA's registry where it answers, otherwise made from this machine's mirror"


@dataclass(frozen=True, kw_only=True)
class Decided:
    """Settings without `auto`. `decisions` holds the decisions, `notes` one line on each.

    `base_digest` identifies the base image; it is empty if only its registry knows it.
    `base_recipe` describes the embedded base that still has to be made.
    """

    settings: Settings
    decisions: Mapping[str, str]
    notes: tuple[str, ...] = ()
    base_digest: str = ""
    base_recipe: Recipe | None = None


def decide_settings(settings: Settings, *, anew: bool = False) -> Steps[Decided]:
    """Return the settings without `auto`. Makes nothing, not even the embedded base."""
    undecided = _list_undecided(settings)
    recorded_values = (
        {} if anew or not undecided else (yield from _read_recorded(settings, undecided))
    )
    decisions = dict(recorded_values)
    missing = undecided - set(recorded_values)
    if missing:
        answers = yield from _probe_choices(settings, missing)
        decisions |= _select_values(settings, missing, answers)
    base = decisions.get("BASE_IMAGE", settings.base_image)
    digest, recipe = base.partition("@")[2], None
    if base == "embedded" or is_embedded(base):
        base_image = yield from embedded_base.find_base(
            base if is_embedded(base) else "", anew=anew
        )
        base, digest = base_image.tag, base_image.identity
        recipe = None if digest else base_image.recipe
        decisions |= {"BASE_IMAGE": base} if "BASE_IMAGE" in decisions else {}
    return Decided(
        settings=_apply_decisions(settings, decisions, base),
        decisions=decisions,
        notes=tuple(
            _format_note(name, decisions[name], kept=name in recorded_values)
            for name in sorted(decisions)
        ),
        base_digest=digest,
        base_recipe=recipe,
    )


def with_base(decided: Decided) -> Steps[Decided]:
    """Make the embedded base if it is needed and missing; return the same with its id."""
    if decided.base_recipe is None:
        return decided
    image_id = yield from embedded_base.make_base(decided.base_recipe)
    return dataclasses.replace(decided, base_digest=image_id, base_recipe=None)


def _list_undecided(settings: Settings) -> set[str]:
    names = {
        name
        for name, automatic in _AUTOMATIC.items()
        if settings.component[name] == "auto" and not automatic.follows_base
    }
    return names | ({"BASE_IMAGE"} if settings.base_image == "auto" else set())


def _read_recorded(settings: Settings, undecided: set[str]) -> Steps[dict[str, str]]:
    form = f'{{{{index .Config.Labels "{DECIDED}"}}}}'
    inspect_result = yield make_engine_command(
        "image", "inspect", "--format", form, str(settings.image_ref)
    )
    try:
        recorded = json.loads(inspect_result.stdout) if inspect_result.returncode == 0 else {}
    except ValueError:
        return {}
    items = recorded.items() if isinstance(recorded, dict) else ()
    return {str(name): str(value) for name, value in items if name in undecided}


def _probe_choices(settings: Settings, missing: set[str]) -> Steps[ProbeAnswers]:
    questions = {name: _AUTOMATIC[name].url(settings.component) for name in missing & {*_AUTOMATIC}}
    questions |= {"BASE_IMAGE": _REGISTRY} if "BASE_IMAGE" in missing else {}
    urls = sorted(filter(None, questions.values()))
    # Without a password, which an argument of curl would show to all users: any answer counts.
    plain = {url: split_url(url).plain for url in urls}
    statuses = yield probe_urls([*plain.values()], settings)
    info = yield make_engine_command("info", "--format", "{{json .Runtimes}}")
    lines = (line.partition(" ") for line in statuses.stdout.splitlines())
    answered = {url.rstrip("/") for code, _, url in lines if code != "000"}
    return ProbeAnswers(
        urls=frozenset(url for url in urls if plain[url].rstrip("/") in answered),
        gpus='"nvidia"' in info.stdout,
    )


def probe_urls(urls: list[str], settings: Settings) -> Command:
    """Return the curl command that prints a line for each URL: its status, or 000 for no answer."""
    proxies = {
        "http_proxy": settings.http_proxy,
        "https_proxy": settings.https_proxy,
        "no_proxy": settings.no_proxy,
    }
    certificates = ("--cacert", settings.ca_bundle) if settings.ca_bundle else ()
    return Command(
        argv=(
            *("curl", "--silent", "--parallel", "--max-time", _TIMEOUT_S, *certificates),
            *("--write-out", "%{http_code} %{url_effective}\\n"),
            *(word for url in urls for word in ("--output", "/dev/null", url)),
        ),
        env={name: value for name, value in proxies.items() if value},
        secrets=frozenset(proxies),
    )


def _select_values(settings: Settings, missing: set[str], answers: ProbeAnswers) -> dict[str, str]:
    base = NVIDIA_BASE if _REGISTRY in answers.urls else "embedded"
    return {
        name: base if name == "BASE_IMAGE" else _AUTOMATIC[name].choose(answers, settings.component)
        for name in missing
    }


def _apply_decisions(settings: Settings, decisions: Mapping[str, str], base: str) -> Settings:
    component = {**settings.component, **{k: v for k, v in decisions.items() if k != "BASE_IMAGE"}}
    answers = ProbeAnswers(base_image=base)
    for name, automatic in _AUTOMATIC.items():
        if automatic.follows_base and component[name] == "auto":
            component[name] = automatic.choose(answers, component)
    return dataclasses.replace(settings, base_image=base, component=component)


def _format_note(name: str, value: str, *, kept: bool) -> str:
    why = _WHY_BASE if name == "BASE_IMAGE" else _AUTOMATIC[name].why
    how = "as in the last build; --rebuild-base decides anew" if kept else why
    return f"{name}=auto is {value or 'empty'} ({how})"
