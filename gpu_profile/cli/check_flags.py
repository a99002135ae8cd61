"""Check the text of each flag against its kind before a verb runs."""

from gpu_profile.cli.verb import VerbOptions
from gpu_profile.declared.kinds import fault
from gpu_profile.errors import SettingsError, did_you_mean


def check_flags(options: VerbOptions) -> None:
    """Raise SettingsError for a flag whose text is not of its kind, such as `--delay nan`."""
    for option in options.list_options():
        value = options.value_of(option)
        if value == option.default:
            continue
        for entry in value if isinstance(value, tuple) else [value]:
            if entry == "":
                raise SettingsError(f"--{option.name} is empty", "Give it a value, or leave it out")
            if option.choices and entry not in option.choices:
                choices_text = f"There are {', '.join(option.choices)}"
                hint = f"{did_you_mean(str(entry), option.choices)} {choices_text}"
                raise SettingsError(f"--{option.name} {entry!r} is not known", hint.strip())
            if hint := fault(option.kind, str(entry)):
                shown = f"{entry:g}" if isinstance(entry, float) else repr(entry)
                raise SettingsError(f"--{option.name} {shown} is not understood", hint)
