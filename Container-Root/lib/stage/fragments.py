"""The files that several components change: what each one added, to be merged in the image."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

NOTES = "var/lib/gpu-profile"
STATUS = "var/lib/dpkg/status"
DIVERSIONS = "var/lib/dpkg/diversions"
LINES = (
    "etc/passwd",
    "etc/group",
    "etc/shadow",
    "etc/gshadow",
    "etc/subuid",
    "etc/subgid",
    "etc/shells",
    "var/lib/dpkg/statoverride",
    "var/lib/dpkg/triggers/File",
    "var/lib/dpkg/triggers/Unincorp",
)
FILES = (STATUS, DIVERSIONS, *LINES)
if TYPE_CHECKING:
    Entries = dict[str, dict[str, str]]  # file -> key of each of its entries -> the entry's text


def _text(path: Path) -> str:
    return path.read_text(errors="surrogateescape") if path.exists() else ""


def _stanzas(text: str) -> dict[str, str]:
    entries = {}
    for stanza in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in stanza.splitlines() if ": " in line)
        if "Package" in fields:
            entries[f"{fields['Package']}:{fields.get('Architecture', '')}"] = stanza.strip("\n")
    return entries


def _groups(text: str, size: int) -> dict[str, str]:
    lines = text.splitlines()
    groups = ["\n".join(lines[i : i + size]) for i in range(0, len(lines), size)]
    return {group: group for group in groups}


def _accounts(text: str) -> dict[str, str]:
    return {line.split(":")[0]: line for line in text.splitlines()}


def entries(file: str, text: str) -> dict[str, str]:
    if file == STATUS:
        return _stanzas(text)
    if file == DIVERSIONS:
        return _groups(text, 3)
    return _accounts(text) if file.startswith("etc/") else _groups(text, 1)


def snapshot(root: Path) -> Entries:
    return {file: entries(file, _text(root / file)) for file in FILES}


def write(before: Entries, after: Entries, notes: Path) -> None:
    """What is new or changed, and which packages went, as notes/fragments.json."""
    changed = {
        file: {k: v for k, v in after[file].items() if before[file].get(k) != v} for file in FILES
    }
    gone = sorted(set(before[STATUS]) - set(after[STATUS]))
    text = json.dumps({"changed": changed, "gone": gone}, indent=1, sort_keys=True)
    (notes / "fragments.json").write_text(text, errors="surrogateescape")


def _check_ids(file: str, merged: dict[str, str]) -> None:
    """Side by side, two components can give one number to two accounts."""
    owner: dict[str, str] = {}
    for name, line in merged.items():
        number = line.split(":")[2]
        if owner.setdefault(number, name) != name:
            raise SystemExit(
                f"merge: {file}: {owner[number]} and {name} both have id {number}:"
                " add both accounts in setup.d/00-base.sh"
            )


def merge(root: Path, notes: list[Path]) -> None:
    """Put the components' entries into the files under `root`."""
    merged = snapshot(root)
    for note in notes:
        fragment = json.loads((note / "fragments.json").read_text(errors="surrogateescape"))
        for package in fragment["gone"]:
            merged[STATUS].pop(package, None)
        for file, added in fragment["changed"].items():
            merged[file].update(added)
    for file in ("etc/passwd", "etc/group"):
        _check_ids(file, merged[file])
    for file, texts in merged.items():
        _put(root / file, "\n\n" if file == STATUS else "\n", texts)


def _put(path: Path, separator: str, texts: dict[str, str]) -> None:
    text = "".join(f"{entry}{separator}" for entry in texts.values())
    if text != _text(path):
        path.write_text(text, errors="surrogateescape")
