"""init: write a settings file to edit."""

from pathlib import Path

from gpu_profile.cli.options.machine import InitOptions
from gpu_profile.cli.program import program_name
from gpu_profile.errors import SettingsError
from gpu_profile.files import explain_failure
from gpu_profile.settings.lookup import HERE
from gpu_profile.settings.places import user_settings_file
from gpu_profile.settings.template import render_template


def init(options: InitOptions) -> None:
    """Write every setting with its default and a comment. Never overwrites a file."""
    path = choose_file(user=options.user, output=options.output)
    with explain_failure(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(render_template())
        except FileExistsError:
            hint = "Edit it, or name another with --output FILE or --user"
            raise SettingsError(f"{path} is there already", hint) from None
    print(f"{path} is written; `{program_name()} config` shows what is in force")


def choose_file(*, user: bool, output: str) -> Path:
    """Return the path to write. Raises SettingsError for --user together with --output."""
    if user and output:
        raise SettingsError("--user and --output name two files", "Use one of them")
    return user_settings_file() if user else Path(output).expanduser() if output else HERE
