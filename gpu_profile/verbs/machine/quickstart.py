"""quickstart: from a fresh machine to the findings of a first run."""

import dataclasses
from pathlib import Path

from gpu_profile import process
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.jobs import launcher_of
from gpu_profile.cli.options.image import BuildOptions
from gpu_profile.cli.options.jobs import ProfileOptions
from gpu_profile.cli.options.machine import DoctorOptions, QuickstartOptions
from gpu_profile.cli.options.reading import DiagnoseOptions, HtmlOptions
from gpu_profile.cli.options.shared import SetOptions, SettingsOptions
from gpu_profile.cli.run_verb import run_verb
from gpu_profile.cli.terminal import print_message
from gpu_profile.runs import record
from gpu_profile.settings.places import ROOT

_TIME = (
    "This takes 2 to 4 minutes without a GPU, more where PyTorch for CUDA is downloaded\n"
    "(several GB), and half a minute once the image is there."
)
EXAMPLE = ROOT / "tests" / "data" / "h200-loader" / "rank0.sqlite.gz"
"""A recording of one H200 whose data loader is slow; the installed command has none."""
EXAMPLE_PAGE = "example-h200.html"


def quickstart(options: QuickstartOptions) -> None:
    """Run doctor, build and profile, which ends with the findings.

    A machine without a GPU has nothing to find, so a recording of an H200 is read there, too.
    """
    print_message(_TIME)
    settings = load_settings(options)
    _run_step("doctor", DoctorOptions(fix=True, yes=options.yes), options)
    _run_step("build", BuildOptions(unlocked=True, verbose=options.verbose), options)
    has_gpus = process.drive(launcher_of(settings.launcher, settings).gpus()) != 0
    # The sample has ranges of its own: with marks, each would be there twice.
    sample = ProfileOptions(ddp=True, annotate="" if has_gpus else "none")
    _run_step("profile", sample, options)
    directory = record.find_run(settings.report_dir)
    example_page = None if has_gpus else read_example(directory, options)
    tell_end(directory, example_page)


def _run_step(name: str, verb_options: SettingsOptions, options: QuickstartOptions) -> None:
    """Run a verb with the settings and the environment of quickstart."""
    print_message(f"\n== invoke {name}")
    chosen = dataclasses.replace(verb_options, with_dependencies=options.with_dependencies)
    run_verb(name, _with_settings(chosen, options))


def _with_settings(verb_options: SetOptions, options: QuickstartOptions) -> SetOptions:
    return dataclasses.replace(
        verb_options, set=options.set, env_file=options.env_file, environ=options.environ
    )


def read_example(directory: Path, options: QuickstartOptions) -> Path | None:
    """Print what the recording of an H200 tells, and return its page in the run directory."""
    if not EXAMPLE.is_file():
        return None
    report, page = (str(EXAMPLE),), directory / EXAMPLE_PAGE
    print_message(
        f"\n== What a run on a GPU tells: invoke diagnose --report {EXAMPLE.relative_to(ROOT)}"
    )
    run_verb("diagnose", _with_settings(DiagnoseOptions(report=report), options))
    run_verb("html", _with_settings(HtmlOptions(report=report, output=str(page)), options))
    return page


def tell_end(directory: Path, example_page: Path | None) -> None:
    """Print where everything is, and what to type next."""
    print_message(f"\nThe sample's run, with its page: {directory}")
    if example_page:
        print_message(f"The page of the H200: {example_page} (one file, open it in a browser)")
    print_message("Next: your own script: invoke profile --mount ~/code -- python3 train.py")
