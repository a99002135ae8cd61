"""README and pages stay true: what is generated, where links lead, which commands they show."""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from gpu_profile.analysis.activity.idle.gaps import CAUSES
from gpu_profile.analysis.findings.table import RULES
from gpu_profile.analysis.tables.analysis import Analysis
from gpu_profile.analysis.tables.by_name import ANALYSES, OURS
from gpu_profile.cli.table import VERBS
from gpu_profile.declared.launchers import LAUNCHERS
from gpu_profile.job import Job, NsysPlan, ProfileSpec, Resources
from gpu_profile.launchers.slurm.sbatch import Script
from gpu_profile.nsys.help import TYPICAL_HELP
from gpu_profile.nsys.options import first_options, profile_options
from gpu_profile.settings.settings import KEYS, strip_credentials
from tests.unit.accuracy_page import count_kinds

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


def sbatch_script() -> str:
    """The script of the command that docs/slurm.md begins with, by the user `me`."""
    spec = ProfileSpec()
    plan = NsysPlan(
        options=profile_options(spec, TYPICAL_HELP, gpus=True),
        first=first_options(spec, TYPICAL_HELP, gpus=True),
    )
    job = Job(
        name="train-20261121-040000",
        command=("python", "train.py"),
        profile=spec,
        resources=Resources(nodes=2, gpus_per_node=8, tasks_per_node=8),
    )
    script = Script(partition="gpu", time="00:30:00")
    text = script.render(job, plan, f"/fsx/runs/.gpu-profile-slurm-me/{job.name}")
    return f"```bash\n{text.rstrip()}\n```"


def analyses_table(analyses: Mapping[str, Analysis]) -> str:
    rows = [f"| `{name}` | {_mark_flags(analysis.doc)} |" for name, analysis in analyses.items()]
    return "\n".join(["| table | shows |", "|---|---|", *rows])


def _mark_flags(doc: str) -> str:
    return re.sub(r"--[\w=-]+(?: modules| ops)?", r"`\g<0>`", doc)


def findings_table() -> str:
    rows = [
        f"| `{rule.kind}` | {', '.join(f'`{cause}`' for cause in row.causes)} | {row.when} |"
        for rule in RULES.values()
        for row in rule.rows
    ]
    return "\n".join(["| kind | cause | reported when |", "|---|---|---|", *rows])


GENERATED: Mapping[tuple[str, str], Callable[[], str]] = {
    ("README.md", "verbs"): verbs_table,
    ("docs/settings.md", "settings"): settings_table,
    ("docs/findings.md", "findings"): findings_table,
    ("docs/accuracy.md", "by-kind"): count_kinds,
    ("docs/glossary.md", "launchers"): lambda: ", ".join(LAUNCHERS),
    ("docs/slurm.md", "sbatch"): sbatch_script,
    ("docs/reading.md", "nsys-tables"): lambda: analyses_table(ANALYSES),
    ("docs/reading.md", "our-tables"): lambda: analyses_table(OURS),
}
"""(page, name) -> the text between `<!-- name -->` and `<!-- /name -->` of that page."""


def replace_generated(page: str, name: str, text: str) -> str:
    """The page's text with this part made from the code; an error where its two marks are not."""
    first, last = f"<!-- {name} -->", f"<!-- /{name} -->"
    assert text.count(first) == text.count(last) == 1, f"{page} needs {first}{last}"
    before, after = text.partition(first)[0], text.partition(last)[2]
    newline = "\n" if after.startswith("\n") else ""  # none for marks inside a line
    return f"{before}{first}{newline}{GENERATED[page, name]()}{newline}{last}{after}"


@pytest.mark.parametrize("page", dict.fromkeys(page for page, _ in GENERATED))
def test_generated_parts_are_those_of_the_code(page: str) -> None:
    """GOLDEN=write makes them anew."""
    path = ROOT / page
    text = made = path.read_text(encoding="utf-8")
    for name in (name for of_page, name in GENERATED if of_page == page):
        made = replace_generated(page, name, made)
    if os.environ.get("GOLDEN") == "write":
        draft = path.with_suffix(".draft")  # tests beside this one read the page
        draft.write_text(made, encoding="utf-8")
        draft.replace(path)
    else:
        assert made == text


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", page.read_text(encoding="utf-8"))
    for target, anchor in links:
        if "://" not in target:
            path = page.parent / target if target else page
            assert path.exists(), target
            assert not anchor or anchor in list_anchors(path), f"{target}#{anchor}"


def list_anchors(page: Path) -> list[str]:
    """What GitHub makes of a page's headings: small letters, `-` for spaces, no other signs."""
    headings = re.findall(r"^#+ (.*)", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]


def test_every_page_is_linked_from_the_readme() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    pages = [path.name for path in (ROOT / "docs").glob("*.md")]
    assert [name for name in pages if f"](docs/{name})" not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_the_pages_are_verbs(page: Path) -> None:
    names = {verb.name for verb in VERBS} | {"VERB"}
    lines = re.findall(r"^(?:\$ )?(?:\./inv|invoke) ([\w.-]+)", page.read_text(), re.MULTILINE)
    assert set(lines) <= names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_the_pages_use_flags_of_their_verbs(page: Path) -> None:
    """`./inv profile --on host -- python train.py`: what stands before ` -- `."""
    flags = {verb.name: {f"--{option.name}" for option in verb.options} for verb in VERBS}
    for command in list_commands(page.read_text(encoding="utf-8")):
        words = command.partition(" -- ")[0].split()
        verb_flags = _CORE_FLAGS.union(*(flags[word] for word in words if word in flags))
        shown_flags = {word.partition("=")[0] for word in words if re.match(r"--\w", word)}
        assert shown_flags <= verb_flags, command


_COMMAND = re.compile(
    r"`?(?:\$ )?(?:\w+=\S* )?(?:cd \S+ && )?(?:\./inv|invoke|gpu-profile) ([^`|#;]*)"
)
_CORE_FLAGS = {"--help", "--print-completion-script"}
"""Flags that Invoke itself has."""


def list_commands(text: str) -> Iterator[str]:
    """`VERB … -- WORD…` of each line and each piece of `code` of ./inv, invoke or gpu-profile."""
    joined = text.replace("\\\n", " ")
    for code in re.findall(r"^[^`\n]+|`[^`\n]+`", joined, re.MULTILINE):
        match = _COMMAND.match(code)
        if match:
            yield match[1]


@pytest.mark.parametrize("cause", CAUSES)
def test_every_idle_cause_has_a_row(cause: str) -> None:
    assert f"\n| `{cause}` |" in (ROOT / "docs/steps.md").read_text(encoding="utf-8")
