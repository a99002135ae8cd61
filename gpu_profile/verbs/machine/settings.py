"""config and init: the settings and their sources, and a file with all of them."""

import json
import sys
from pathlib import Path

from gpu_profile.cli.flags import load_settings, tell_note
from gpu_profile.cli.options.machine import ConfigOptions, InitOptions
from gpu_profile.cli.terminal import print_tables
from gpu_profile.errors import SettingsError
from gpu_profile.files import explain_failure, write_atomically
from gpu_profile.printable import program_name
from gpu_profile.progress import Progress
from gpu_profile.settings import settings, template
from gpu_profile.settings.lookup import HERE, SettingsFile, find_settings_file
from gpu_profile.settings.places import user_settings_file
from gpu_profile.settings.settings import KEYS
from gpu_profile.settings.template import render_template
from gpu_profile.settings.update_file import update_file
from gpu_profile.table import Column, Table


def config(options: ConfigOptions) -> None:
    """Print every setting with its value and source, or the .env file with --format env.

    With --write the settings file gets our order and comments, the settings that it lacks, and the
    values of --set.
    """
    if options.write:
        _update_file(options)
        return
    if options.format == "env":
        sys.stdout.write(template.render_template())
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
        tell_note(file.note)
    Progress().say(f"settings file: {file.path or 'none'}")


def _update_file(options: ConfigOptions) -> None:
    if options.format != "text":
        raise SettingsError(f"--write prints no {options.format}", "Leave out --format")
    file = find_settings_file(options.env_file, settings.NAMES)
    if file.note:
        raise SettingsError(file.note, "Name the file to write with --env-file")
    # raises for an unknown key or a bad value
    settings.load_settings(None, {}, options.set, with_dependencies=True)
    path = file.path or HERE
    values = dict(word.split("=", 1) for word in options.set)
    update = update_file(path, values)
    for name in update.unknown:
        Progress().say(f"note: {path}: {name} is not a setting, and kept")
    parts = {"added": update.added_keys, "changed": update.changed_keys}
    lines = [f"{what} {', '.join(names)}" for what, names in parts.items() if names]
    lines += ["renewed order and comments"] if update.is_renewed else []
    print(f"{path}: {'; '.join(lines) or 'has every setting, nothing to do'}")


def init(options: InitOptions) -> None:
    """Write every setting with its default and a comment. Never overwrites a file."""
    path = choose_file(user=options.user, output=options.output)
    with explain_failure(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            path.open("x").close()
        except FileExistsError:
            hint = "Edit it, or name another with --output FILE or --user"
            raise SettingsError(f"{path} is there already", hint) from None
        try:
            write_atomically(path, render_template())
        except BaseException:  # a full disk leaves no empty file
            path.unlink(missing_ok=True)
            raise
    print(f"{path} is written; `{program_name()} config` shows what is in force")


def choose_file(*, user: bool, output: str) -> Path:
    """Return the path to write. Raises SettingsError for --user together with --output."""
    if user and output:
        raise SettingsError("--user and --output name two files", "Use one of them")
    return user_settings_file() if user else Path(output).expanduser() if output else HERE
