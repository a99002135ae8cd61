"""One HTML file: its head with the policy, its header and navigation, its scripts."""

import base64
import hashlib
from collections.abc import Sequence
from importlib import resources

from gpu_profile.analysis.page.parts import render_tag, render_text

_ON_PAPER = render_tag(
    "span",
    " On paper: the first 8 rows of a table, 8 findings and 16 ranks of a chart, and no table that "
    "is folded. The file has all.",
    class_="paper",
)
_SCRIPTS = (
    *("tables.js", "data.js", "timeline.js", "events.js", "lanes.js", "lookup.js"),
    *("search.js", "places.js", "icicle.js", "controls.js"),
)


def render_document(title: str, body: str) -> str:
    """The file. `title` and `body` are HTML."""
    sources = [_read_asset(name) for name in _SCRIPTS]
    scripts = "".join(f"<script>{source}</script>\n" for source in sources)
    footer = render_tag("footer", "Made by gpu-profile.", _ON_PAPER)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_make_policy(sources)}">\n'
        # Else a telephone draws the page as wide as a desktop's, and shrinks it.
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{title}</title>\n<link rel="icon" href="data:,">\n'
        f"<style>\n{_read_asset('page.css')}{_read_asset('print.css')}</style>\n</head>\n<body>\n"
        f'<div class="page">\n{body}{footer}\n</div>\n{scripts}</body>\n</html>\n'
    )


def _make_policy(sources: Sequence[str]) -> str:
    """The content security policy that lets a browser run these scripts, and load nothing.

    It is a second wall: a name that got through the escaping could still run and fetch nothing.
    Styles are allowed anywhere, because the widths of bars are attributes, which have no hash
    (https://www.w3.org/TR/CSP3/#unsafe-hashes-usage). The icon is an empty data URL.
    """
    digests = [base64.b64encode(hashlib.sha256(s.encode()).digest()).decode() for s in sources]
    scripts = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data:;"
        " base-uri 'none'; form-action 'none'"
    )


def render_header(title: str, about: str) -> str:
    """The heading of the page; `title` is HTML, `about` is text."""
    skip = '<a class="skip" href="#main">Skip to the content</a>'
    return skip + render_tag(
        "header",
        render_tag("h1", title),
        render_tag("p", render_text(about), class_="sub"),
        class_="top",
    )


def render_navigation(main: str, links: Sequence[tuple[str, str]]) -> str:
    """The links (anchor, name) to the sections that are in `main`."""
    items = (
        render_tag("li", render_tag("a", render_text(name), href=f"#{anchor}"))
        for anchor, name in links
        if f'id="{anchor}"' in main
    )
    return render_tag("nav", render_tag("ul", *items), aria_label="Parts of this page")


def _read_asset(name: str) -> str:
    return (
        resources.files("gpu_profile.analysis.page")
        .joinpath("assets", name)
        .read_text(encoding="utf-8")
    )
