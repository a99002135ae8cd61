"""html: write one page of a run."""

from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.options.reading import HtmlOptions
from gpu_profile.cli.terminal import print_tables
from gpu_profile.verbs.reading.desktop import find_browser, show_page
from gpu_profile.verbs.reading.open_run import ReportChoice, resolve_output
from gpu_profile.verbs.reading.page import save_page


def html(options: HtmlOptions) -> None:
    """Write the page of a run's reports."""
    browser = find_browser() if options.open else ""
    settings = load_settings(options)
    choice = ReportChoice.from_options(options)
    output = resolve_output(choice, options.output, settings, "page.html")
    summary = save_page(choice, settings, output)
    print_tables([summary], "text")
    if browser:
        show_page(browser, output)
    print(f"{output}: one file, {'shown' if browser else 'open it'} in a browser")
