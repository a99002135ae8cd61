"""The path of a thing follows from its name, by the rules of CONTRIBUTING.md, "From a name"."""

from pathlib import Path

from gpu_profile.analysis.findings.table import RULES
from gpu_profile.analysis.tables.by_name import ANALYSES, OURS
from gpu_profile.cli.table import VERBS
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


def read_one(pattern: str) -> str:
    """Return the text of the only file of the package with such a path, or nothing."""
    paths = list(PACKAGE.glob(pattern))
    return paths[0].read_text(encoding="utf-8") if len(paths) == 1 else ""


def test_a_verb_is_the_function_of_its_name_in_the_file_of_its_subject() -> None:
    texts = {verb.name: read_one(f"verbs/{verb.module.replace('.', '/')}.py") for verb in VERBS}
    assert [name for name, text in texts.items() if f"\ndef {word(name)}(" not in text] == []


def test_a_table_is_the_constant_of_its_name_in_the_file_of_its_name() -> None:
    tables = {**ANALYSES, **OURS}
    constants = {name: f"\n{name.upper()} = " for name in tables}
    texts = {name: read_one(f"analysis/*_tables/**/{name}.py") for name in tables}
    assert [name for name in tables if constants[name] not in texts[name]] == []
    assert {name: table.name for name, table in tables.items()} == {name: name for name in tables}
    assert [name for name, table in tables.items() if not table.doc or "\n" in table.doc] == []


def test_a_finding_is_the_rule_in_the_file_of_its_kind() -> None:
    texts = {kind: read_one(f"analysis/findings/rules/*/{kind}.py") for kind in RULES}
    assert [kind for kind, text in texts.items() if "\nRULE = FindingRule(" not in text] == []


def derive_class(launcher: str) -> tuple[str, str]:
    """Return the module and the name, in small letters, of a launcher's class."""
    places = (f"{launcher}.py", f"{launcher}/launcher.py", f"kubernetes/{launcher}.py")
    (path,) = [place for place in places if (PACKAGE / "launchers" / place).exists()]
    return f"gpu_profile.launchers.{path[:-3].replace('/', '.')}", f"{launcher}launcher"


def test_a_launcher_is_the_class_in_the_file_of_its_name() -> None:
    classes = {name: row.load_class() for name, row in LAUNCHERS.items()}
    places = {name: (each.__module__, each.__name__.lower()) for name, each in classes.items()}
    assert places == {name: derive_class(name) for name in LAUNCHERS}


def test_a_component_is_the_constant_in_the_file_of_its_name() -> None:
    texts = {each.name: read_one(f"components/{word(each.name)}.py") for each in COMPONENTS}
    assert [name for name, text in texts.items() if "\nCOMPONENT = Component(" not in text] == []
    scripts = {path.name for path in (ROOT / "Container-Root/setup.d").glob("[0-9][0-9]-*.sh")}
    names = {each.name: each.script for each in COMPONENTS}
    assert {script[3:-3]: script for script in scripts}.items() >= names.items()


def place_of(setting: str) -> str:
    """`settings` for a field of Settings, otherwise the file of the component."""
    text = setting.removeprefix("INSTALL_")
    names = {word(component.name) for component in COMPONENTS}
    matching = [name for name in names if f"{text}_".startswith(f"{name.upper()}_")]
    is_core = text == "NSYS"  # the path of the nsys of a host
    return OTHERS.get(
        setting, "settings" if is_core else max(matching, key=len, default="settings")
    )


def is_in_its_place(setting: str) -> bool:
    place = place_of(setting)
    if place == "settings":
        return f"    {setting.lower()}: " in read_one("settings/settings.py")
    return f'"{setting}"' in read_one(f"components/{place}.py")


def test_a_setting_is_in_the_file_that_its_first_word_names() -> None:
    launchers = {key.name for key in LAUNCHER_KEYS}
    settings = {key.name for key in KEYS} - launchers
    assert [name for name in sorted(settings) if not is_in_its_place(name)] == []
    assert [name for name in sorted(launchers) if not is_launcher_setting(name)] == []


def is_launcher_setting(name: str) -> bool:
    """SLURM_TIME is the field `time` of declared/slurm_settings.py; TOY_SHELL is in its row."""
    first, _, field = name.lower().partition("_")
    family = {"kube": "kubernetes"}.get(first, first)
    text = read_one(f"declared/{family}_settings.py")
    rows = read_one("declared/launchers.py")
    return f"    {field}: " in text if text else f'name="{name}"' in rows
