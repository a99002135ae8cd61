"""Users and passwords in URL settings and proxies: build secrets, so that no ARG has them.

An ARG is in the builder's cache records and in its history of builds. Downloads find the password
by its host in a netrc file (gnu.org/software/inetutils, "The .netrc file"), which curl, pip, git
and apt read. A changed password builds nothing anew.
"""

import re
from urllib.parse import urlsplit

from gpu_profile.components.component import list_arguments
from gpu_profile.components.table import list_enabled
from gpu_profile.declared.key import Values
from gpu_profile.errors import SettingsError
from gpu_profile.redact import split_url
from gpu_profile.settings.settings import Settings

PROXIES = ("http_proxy", "https_proxy", "no_proxy")
NETRC, PROXY_SECRET = "netrc", "proxies"


def collect_values(settings: Settings) -> Values:
    """Return the settings that components' scripts and environments are made from."""
    return {**settings.component, "CUDA_ARCHS": settings.cuda_archs}


def list_secrets(settings: Settings) -> dict[str, str]:
    """Return the text of each build secret that these settings need, by its id."""
    secrets = {NETRC: make_netrc(settings), PROXY_SECRET: _make_proxy_lines(settings)}
    return {name: text for name, text in secrets.items() if text}


def list_plain_proxies(settings: Settings) -> dict[str, str]:
    """Return the proxies that may be build arguments: those without a password."""
    proxies = {name: str(getattr(settings, name)) for name in PROXIES}
    return {name: url for name, url in proxies.items() if url and "@" not in url}


def _make_proxy_lines(settings: Settings) -> str:
    proxies = {name: str(getattr(settings, name)) for name in PROXIES}
    return "".join(f"{name}={url}\n" for name, url in proxies.items() if "@" in url)


def make_netrc(settings: Settings) -> str:
    """Return a netrc line for each host whose URL setting has a user; empty if none has.

    Raises SettingsError if two settings have different users for one host.
    """
    lines: dict[str, str] = {}
    for component in list_enabled(settings.component):
        for name, value in list_arguments(component, collect_values(settings)).items():
            login = split_url(value) if name.endswith("_URL") else split_url("")
            if not login.user and not login.password:
                continue
            host = urlsplit(login.plain).hostname or ""
            line = f"machine {host} login {_quote(login.user)} password {_quote(login.password)}"
            if lines.setdefault(host, line) != line:
                raise SettingsError(
                    f"{name} has another user or password for {host} than another _URL has",
                    "Downloads know a password by its host: use one for both",
                )
    return "".join(f"{line}\n" for line in lines.values())


def _quote(word: str) -> str:
    """Return a word of a netrc file. curl reads quoted words since 7.84, Python since 3.11."""
    if word and not re.search(r"[\s\"\\#]", word):
        return word
    escaped = word.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
