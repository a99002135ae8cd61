"""diagnose: print the findings in a run's reports."""

from gpu_profile.analysis.findings import diagnose as findings
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.options.reading import DiagnoseOptions
from gpu_profile.cli.terminal import print_tables
from gpu_profile.verbs.reading.open_run import ReportChoice, open_reading
from gpu_profile.verbs.reading.run_files import describe_tracing_cost


def diagnose(options: DiagnoseOptions) -> None:
    """Print the findings in a run's reports."""
    settings = load_settings(options)
    choice = ReportChoice.from_options(options)
    read = open_reading(choice, settings)
    answers = read.of([findings.FINDINGS])
    diagnosis = findings.judge_run(
        [answer[0] for answer in answers], read.run.alignment.residual_ns or 0
    ).with_cost(describe_tracing_cost(choice, settings))
    form = options.format
    if form == "json":
        print(diagnosis.to_json())
    elif form == "text":
        print("\n".join((*diagnosis.overview.to_lines(), diagnosis.to_text())))
    else:
        print_tables([diagnosis.to_table()], form)
