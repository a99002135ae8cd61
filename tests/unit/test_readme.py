"""README and pages stay true: tables made from the code, links that lead somewhere."""

import os
import re
from pathlib import Path

import pytest

from gpu_profile.cli.table import VERBS
from gpu_profile.settings.settings import KEYS, strip_credentials

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]


def verbs_table() -> str:
    rows = [f"| `{verb.name}` | {verb.doc} |" for verb in VERBS]
    return "\n".join(["| verb | does |", "|---|---|", *rows])


def settings_table() -> str:
    rows = [
        f"| `{key.name}` | {_code(strip_credentials(key.default))} | {_doc(key.doc, key.choices)} |"
        for key in KEYS
    ]
    return "\n".join(["| key | default | meaning |", "|---|---|---|", *rows])


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _doc(doc: str, choices: tuple[str, ...]) -> str:
    text = f"{doc} ({', '.join(choices)})" if choices else doc
    return text.replace("|", "\\|")


def filled(text: str) -> str:
    """README.md with its tables made anew."""
    for name, table in (("verbs", verbs_table()), ("settings", settings_table())):
        pattern = rf"<!-- {name} -->\n(?:.*?<!-- /{name} -->|)"
        made = f"<!-- {name} -->\n{table}\n<!-- /{name} -->".replace("\\", r"\\")
        text = re.sub(pattern, made, text, count=1, flags=re.DOTALL)
    return text


def test_the_tables_of_the_readme_are_those_of_the_code() -> None:
    """GOLDEN=write makes them anew."""
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    if os.environ.get("GOLDEN") == "write":
        readme.write_text(filled(text), encoding="utf-8")
    else:
        assert filled(text) == text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_the_pages_are_verbs(page: Path) -> None:
    names = {verb.name for verb in VERBS} | {"VERB"}
    lines = re.findall(r"^(?:\$ )?(?:\./inv|invoke) ([\w.-]+)", page.read_text(), re.MULTILINE)
    assert set(lines) <= names
