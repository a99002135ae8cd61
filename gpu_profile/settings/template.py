"""The shipped .env file: every key with its default and a comment."""

import re

from gpu_profile.components.table import COMPONENTS
from gpu_profile.declared.key import Key
from gpu_profile.declared.launchers import LAUNCHER_KEYS
from gpu_profile.settings.settings import CORE_KEYS, strip_credentials

FIRST_LINE = "# Settings: KEY=value, data and not shell."
"""How each file that `init` writes begins, also the `.env` of older versions."""
HEAD = f"{FIRST_LINE} The verb `config` shows what is in force."


def render_template() -> str:
    """Return the text of the shipped .env file."""
    blocks = [HEAD]
    for title, keys in list_groups():
        lines = [line for key in keys for line in format_setting(key)]
        blocks.append("\n".join([format_title(title), *lines]))
    return "\n\n".join(blocks) + "\n"


def format_title(title: str) -> str:
    return f"# --- {title}"


def list_groups() -> list[tuple[str, tuple[Key, ...]]]:
    """Return the sections of the file: a title, and its settings in order."""
    groups = [("Image, containers and launchers", CORE_KEYS + LAUNCHER_KEYS)]
    groups += [(component.doc, component.keys) for component in COMPONENTS if component.keys]
    return groups


def format_setting(key: Key, value: str | None = None) -> tuple[str, str]:
    """Return the comment and the line of a setting, with its default or this value."""
    text = quote_value(strip_credentials(key.default) if value is None else value)
    choices = f" ({', '.join(key.choices)})" if key.choices else ""
    return f"# {key.doc}{choices}", f"{key.name}={text}"


def quote_value(text: str) -> str:
    """Return a value as .env holds it: quoted where it has a space, `$`, `#` or a quote."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'" if re.search(r"[\s$#'\"`]", text) else text
