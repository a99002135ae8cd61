"""The path of a verb, table or finding follows from its name, by the rules of CONTRIBUTING.md."""

from pathlib import Path

import pytest

from gpu_profile.analysis.findings.table import RULES
from gpu_profile.analysis.tables.by_name import ANALYSES, OURS
from gpu_profile.cli.table import VERBS

PACKAGE = Path(__file__).resolve().parents[2] / "gpu_profile"


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
