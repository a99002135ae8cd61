"""The shipped .env file: every key with its default and a comment."""

import re

from gpu_profile.components.key import Key
from gpu_profile.components.table import COMPONENTS
from gpu_profile.launchers.table import ROWS
from gpu_profile.settings.settings import CORE_KEYS, strip_credentials

FIRST_LINE = "# Settings: KEY=value, data and not shell."
"""How each file that `init` writes begins, also the `.env` of older versions."""


def render_template() -> str:
    """Return the text of the shipped .env file."""
    groups = [("Image, containers and launchers", CORE_KEYS)]
    groups += [(f"Launcher {row.name}", row.keys) for row in ROWS if row.keys]
    groups += [(component.doc, component.keys) for component in COMPONENTS if component.keys]
    blocks = [f"{FIRST_LINE} `invoke config` shows what is in force."]
    for title, keys in groups:
        lines = [
            line
            for key in keys
            for line in (f"# {_format_doc(key)}", f"{key.name}={_format_value(key)}")
        ]
        blocks.append("\n".join([f"# --- {title}", *lines]))
    return "\n\n".join(blocks) + "\n"


def _format_doc(key: Key) -> str:
    return f"{key.doc} ({', '.join(key.choices)})" if key.choices else key.doc


def _format_value(key: Key) -> str:
    text = strip_credentials(key.default)
    return f"'{text}'" if re.search(r"[\s$#'\"]", text) else text
