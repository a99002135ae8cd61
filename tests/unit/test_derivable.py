"""The path of a thing follows from its name, by the rules of CONTRIBUTING.md, "From a name"."""

from pathlib import Path

import pytest

from gpu_profile.analysis.findings.table import RULES
from gpu_profile.analysis.tables.by_name import ANALYSES, OURS
from gpu_profile.cli.table import VERBS
from gpu_profile.components.component import Component
from gpu_profile.components.table import COMPONENTS
from gpu_profile.declared.launchers import LAUNCHER_KEYS, LAUNCHERS
from gpu_profile.settings.settings import KEYS

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "gpu_profile"
OTHERS = {
    "CUDA_VERSION": "nccl",
    "INSTALL_TESTS": "nccl_tests",
    "NVTX_PACKAGES": "torch",
    "NVTX_VERSION": "torch",
}
"""Settings that do not begin with the name of their component."""


def word(name: str) -> str:
    """`k8s.install-operator` is the word `install_operator`."""
    return name.rpartition(".")[2].replace("-", "_")


@pytest.mark.parametrize("name", [verb.name for verb in VERBS])
def test_a_verb_is_the_function_of_its_name_in_the_file_of_its_name(name: str) -> None:
    (path,) = PACKAGE.glob(f"verbs/*/{word(name)}.py")
    assert f"\ndef {word(name)}(" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", [*ANALYSES, *OURS])
def test_a_table_is_the_constant_of_its_name_in_the_file_of_its_name(name: str) -> None:
    (path,) = PACKAGE.glob(f"analysis/*_tables/**/{name}.py")
    assert f"\n{name.upper()} = " in path.read_text(encoding="utf-8")
    table = {**ANALYSES, **OURS}[name]
    assert (table.name, "\n" in table.doc, bool(table.doc)) == (name, False, True)


@pytest.mark.parametrize("kind", RULES)
def test_a_finding_is_the_rule_in_the_file_of_its_kind(kind: str) -> None:
    path = PACKAGE / f"analysis/findings/rules/{kind}.py"
    assert "\nRULE = FindingRule(" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", LAUNCHERS)
def test_a_launcher_is_the_class_in_the_file_of_its_name(name: str) -> None:
    places = (f"{name}.py", f"{name}/launcher.py", f"kubernetes/{name}.py")
    (path,) = [place for place in places if (PACKAGE / "launchers" / place).exists()]
    launcher = LAUNCHERS[name].load_class()
    assert launcher.__module__ == f"gpu_profile.launchers.{path[:-3].replace('/', '.')}"
    assert launcher.__name__.lower() == f"{name}launcher"


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda component: component.name)
def test_a_component_is_the_constant_in_the_file_of_its_name(component: Component) -> None:
    path = PACKAGE / f"components/{word(component.name)}.py"
    assert "\nCOMPONENT = Component(" in path.read_text(encoding="utf-8")
    (script,) = (ROOT / "Container-Root/setup.d").glob(f"[0-9][0-9]-{component.name}.sh")
    assert script.name == component.script


def place_of(setting: str) -> str:
    """`settings` for a field of Settings, otherwise the file of the component."""
    text = setting.removeprefix("INSTALL_")
    names = {word(component.name) for component in COMPONENTS}
    own = [name for name in names if f"{text}_".startswith(f"{name.upper()}_")]
    is_core = text == "NSYS"  # the path of the nsys of a host
    return OTHERS.get(setting, "settings" if is_core else max(own, key=len, default="settings"))


@pytest.mark.parametrize("name", sorted({key.name for key in (*KEYS, *LAUNCHER_KEYS)}))
def test_a_setting_is_in_the_file_that_its_first_word_names(name: str) -> None:
    if name in {key.name for key in LAUNCHER_KEYS}:
        check_launcher_setting(name)
        return
    place = place_of(name)
    file = "settings/settings.py" if place == "settings" else f"components/{place}.py"
    text = (PACKAGE / file).read_text(encoding="utf-8")
    assert f"    {name.lower()}: " in text if place == "settings" else f'"{name}"' in text


def check_launcher_setting(name: str) -> None:
    """SLURM_TIME is the field `time` of declared/slurm_settings.py; TOY_SHELL is in its row."""
    first, _, field = name.lower().partition("_")
    family = {"kube": "kubernetes"}.get(first, first)
    path = PACKAGE / f"declared/{family}_settings.py"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    rows = (PACKAGE / "declared/launchers.py").read_text(encoding="utf-8")
    assert f"    {field}: " in text if text else f'name="{name}"' in rows
