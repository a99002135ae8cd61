"""timeline: write a Perfetto trace of a run."""

from gpu_profile.analysis.timeline import timeline as perfetto_timeline
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.options.reading import TimelineOptions
from gpu_profile.cli.terminal import print_tables
from gpu_profile.progress import Progress
from gpu_profile.verbs.reading.open_run import ReportChoice, open_reading, resolve_output


def timeline(options: TimelineOptions) -> None:
    """Write a Perfetto trace of a run's reports."""
    settings = load_settings(options)
    choice = ReportChoice.from_options(options)
    output = resolve_output(choice, options.output, settings, "timeline.perfetto-trace.gz")
    read = open_reading(choice, settings)
    pairs = [(source.place, source.scope) for source in read.sources]
    table = perfetto_timeline.write_timeline(
        pairs,
        output,
        notify=Progress().say,
        most_bytes=read.sources[0].most_bytes,
        clock_error_ns=read.run.alignment.residual_ns or 0,
    )
    print_tables([table], "text")
    print(f"{output}: open it in Perfetto's UI (ui.perfetto.dev reads it in your browser)")
