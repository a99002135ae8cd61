"""quickstart: from a fresh machine to the findings of a first run."""

from gpu_profile.cli.flags import call, load_settings
from gpu_profile.cli.table import Options, Verb
from gpu_profile.runs import record as rundir


def quickstart(verb: Verb, options: Options) -> None:
    """Run doctor, build and profile, which ends with the findings."""
    chosen = load_settings(verb, options)
    for name, flags in (
        ("doctor", {"fix": True, "yes": options["yes"], "format": "text"}),
        ("build", {"unlocked": True}),
        ("profile", {"ddp": True}),
    ):
        print(f"\n== invoke {name}", flush=True)
        call(name, options, **flags)
    directory = rundir.find_run(chosen.report_dir)
    print(f"\nAll of it is in {directory}:")
    for path in sorted(directory.iterdir()):
        print(f"  {path}")
