"""The action takes its inputs by environment, and the two jobs of its examples keep apart."""

import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from actions import github
from gpu_profile.analysis.pull_request import formats

ROOT = Path(__file__).resolve().parents[2]
ACTIONS = (ROOT / "action.yml", ROOT / "actions/comment/action.yml")
EXAMPLES = sorted((ROOT / "actions/examples").glob("*.yml"))


def load(path: Path) -> Any:
    return YAML(typ="safe").load(path.read_text(encoding="utf-8"))


def list_values(node: Any, key: str) -> list[Any]:
    """The values of a key, at any depth."""
    if isinstance(node, list):
        return [value for part in node for value in list_values(part, key)]
    if not isinstance(node, dict):
        return []
    deeper = [value for part in node.values() for value in list_values(part, key)]
    return ([node[key]] if key in node else []) + deeper


@pytest.mark.parametrize("path", [*ACTIONS, *EXAMPLES], ids=lambda path: path.name)
def test_no_script_holds_an_expression(path: Path) -> None:
    """An expression in a script is replaced before bash reads it: a title becomes a command."""
    scripts = [*list_values(load(path), "run"), *list_values(load(path), "script")]
    assert [script for script in scripts if "${{" in str(script)] == []


@pytest.mark.parametrize("path", ACTIONS, ids=str)
def test_each_input_is_a_variable_that_the_script_reads(path: Path) -> None:
    (step,) = load(path)["runs"]["steps"]
    script = ROOT / "actions" / Path(step["run"].strip("'\"")).name
    assert script.stat().st_mode & 0o100
    text = script.read_text(encoding="utf-8")
    inputs = {re.fullmatch(r"\$\{\{ inputs\.(.*) \}\}", v)[1]: k for k, v in step["env"].items()}  # type: ignore[index]
    assert inputs.keys() == load(path)["inputs"].keys()
    unread = {name for name in inputs.values() if f"{name}" not in text}
    assert unread == set()


def test_the_job_that_runs_code_cannot_write_and_the_other_runs_none() -> None:
    measure, comment = (load(ROOT / f"actions/examples/{n}.yml") for n in ("measure", "comment"))
    assert (measure["permissions"], list_values(measure["jobs"], "permissions")) == (
        {"contents": "read"},
        [],
    )
    assert list_values(measure, "persist-credentials") == [False]
    assert measure["jobs"]["measure"]["environment"] == "gpu"
    assert set(comment["permissions"].items()) == {
        *(("actions", "read"), ("pull-requests", "write"))
    }
    used = [use.partition("@")[0] for use in list_values(comment, "uses")]
    assert used == ["OWNER/gpu-profile/actions/comment"]
    assert list_values(comment, "run") == []


def test_a_comment_has_the_mark_by_which_it_is_found() -> None:
    assert github.MARK == formats.MARK
