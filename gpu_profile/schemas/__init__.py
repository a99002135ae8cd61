"""JSON schemas of run.json, findings and tables, by name and version."""

import json
from importlib.resources import files
from typing import Any

from gpu_profile.errors import SettingsError

SCHEMAS = {
    "answer": 1,
    "ci": 1,
    "comparison": 1,
    "findings": 2,
    "run": 1,
    "tables": 1,
    "what_if": 1,
}
"""The version of each schema."""


def load_schema(name: str) -> dict[str, Any]:
    """Return the JSON schema of "run" (run.json) or of what `--format json` prints.

    The version is in its `$id`: `gpu-profile/run-1.json`. A document of version 1 stays valid
    while keys are added; a change of a key's meaning makes version 2. Raises SettingsError for an
    unknown name.
    """
    if name not in SCHEMAS:
        raise SettingsError(f"no schema is called {name!r}", f"There are {', '.join(SCHEMAS)}")
    text = files(__package__).joinpath(f"{name}-{SCHEMAS[name]}.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
