"""Version numbers in the texts of tools, settings, tags and images."""

import re

from packaging.version import Version


def parse_version(text: str) -> Version | None:
    """Return the first version number in a text, or None if it has none.

    `v2.30.7-1` is 2.30.7, `2.9.0+cu130` is 2.9.0 and `2026.4.1.191-264138605071v0` is
    2026.4.1.191: what follows the numbers is a packager's, and not in the form of PEP 440.
    """
    match = re.search(r"\d+(?:\.\d+)*", text)
    return Version(match[0]) if match else None
