"""html: write one page of a run."""

from gpu_profile.analysis.multi_report.worker_server import prepare_workers
from gpu_profile.cli.options.reading import HtmlOptions


def html(options: HtmlOptions) -> None:
    """Write the page of a run's reports."""
    # Before anything else is imported: the workers' server imports numpy at the same time.
    if len(options.report) != 1 and not options.scheduler:
        prepare_workers()
    _write_page(options)


def _write_page(options: HtmlOptions) -> None:
    # imported here: numpy and what needs it take 0.3 s, in which the workers' server loads it too
    from gpu_profile.cli.flags import load_settings
    from gpu_profile.cli.terminal import print_tables
    from gpu_profile.verbs.reading.desktop import find_browser, show_page
    from gpu_profile.verbs.reading.findings import save_page
    from gpu_profile.verbs.reading.open_run import ReportChoice, resolve_output

    browser = find_browser() if options.open else ""
    settings = load_settings(options)
    choice = ReportChoice.from_options(options)
    output = resolve_output(choice, options.output, settings, "page.html")
    summary = save_page(choice, settings, output)
    print_tables([summary], "text")
    if browser:
        show_page(browser, output)
    print(f"{output}: one file, {'shown' if browser else 'open it'} in a browser")
