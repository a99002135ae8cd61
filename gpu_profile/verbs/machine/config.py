"""config: show the settings and their sources."""

import json
import sys

from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.options.machine import ConfigOptions
from gpu_profile.cli.terminal import print_tables
from gpu_profile.progress import Progress
from gpu_profile.settings import settings
from gpu_profile.settings import template as settings_template
from gpu_profile.settings.lookup import SettingsFile, find_settings_file
from gpu_profile.settings.settings import KEYS
from gpu_profile.table import Column, Table


def config(options: ConfigOptions) -> None:
    """Print every setting with its value and source, or the .env file with --format env."""
    if options.format == "env":
        sys.stdout.write(settings_template.render_template())
        return
    chosen = load_settings(options)
    _tell_file(find_settings_file(options.env_file, settings.NAMES))
    rows = tuple(
        (key.name, settings.strip_credentials(chosen.value(key)), chosen.sources[key.name])
        for key in KEYS
    )
    if options.format == "json":
        document = {name: {"value": value, "source": source} for name, value, source in rows}
        print(json.dumps(document, indent=2))
    else:
        columns = (Column("Key"), Column("Value"), Column("Source"))
        print_tables([Table("settings", columns, rows)], options.format)


def _tell_file(file: SettingsFile) -> None:
    """Say on stderr which file was read, and why `.env` was not: stdout holds the table."""
    if file.note:
        Progress().say(file.note)
    Progress().say(f"settings file: {file.path or 'none'}")
