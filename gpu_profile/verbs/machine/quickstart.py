"""quickstart: from a fresh machine to the findings of a first run."""

import dataclasses

from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.options.image import BuildOptions
from gpu_profile.cli.options.jobs import ProfileOptions
from gpu_profile.cli.options.machine import DoctorOptions, QuickstartOptions
from gpu_profile.cli.options.shared import SettingsOptions
from gpu_profile.cli.run_verb import run_verb
from gpu_profile.cli.terminal import tell
from gpu_profile.runs import record


def quickstart(options: QuickstartOptions) -> None:
    """Run doctor, build and profile, which ends with the findings."""
    settings = load_settings(options)
    verbs: dict[str, SettingsOptions] = {
        "doctor": DoctorOptions(fix=True, yes=options.yes),
        "build": BuildOptions(unlocked=True),
        "profile": ProfileOptions(ddp=True),
    }
    for name, verb_options in verbs.items():
        tell(f"\n== invoke {name}")
        run_verb(name, _with_settings(verb_options, options))
    directory = record.find_run(settings.report_dir)
    print(f"\nAll of it is in {directory}:")
    for path in sorted(directory.iterdir()):
        print(f"  {path}")


def _with_settings(options: SettingsOptions, source: SettingsOptions) -> SettingsOptions:
    """Return the options with the settings and the environment of `source`."""
    return dataclasses.replace(
        options,
        set=source.set,
        env_file=source.env_file,
        with_dependencies=source.with_dependencies,
        environ=source.environ,
    )
