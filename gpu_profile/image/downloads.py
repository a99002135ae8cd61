"""Read this machine's settings for downloads: pip's index, CA certificates.

Builds get them as build secrets, so that mirrors and proxies work in the build and leave no trace
in the image.
"""

import configparser
from dataclasses import dataclass

from gpu_profile.command import Command, Steps, make_command

_KEEP = ("index-url", "extra-index-url", "trusted-host", "proxy", "timeout", "retries")
_CERTIFICATES = ("PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
_SCRIPT = (
    'for f in /etc/pip.conf "$HOME/.pip/pip.conf"'
    ' "${XDG_CONFIG_HOME:-$HOME/.config}/pip/pip.conf" "${PIP_CONFIG_FILE:-}";'
    ' do [ -r "$f" ] && cat -- "$f" && echo; done;'
    ' echo "[environment]"; env | grep -E "^(PIP_|SSL_CERT_FILE=|REQUESTS_CA_BUNDLE=|CURL_CA_B)";'
    " true"
)
PROBE: Command = make_command("sh", "-c", _SCRIPT)


@dataclass(frozen=True, kw_only=True)
class Downloads:
    """`pip_conf` is the text of a pip configuration file, `ca_bundle` a path on this machine."""

    pip_conf: str = ""
    ca_bundle: str = ""


def probe_downloads() -> Steps[Downloads]:
    return parse_pip_config((yield PROBE).stdout)


def parse_pip_config(text: str) -> Downloads:
    """Return pip's settings. Files come in order of precedence; the environment wins."""
    # strict=False: several files are one text here. Raw: a `%` in a password stands for itself.
    parser = configparser.RawConfigParser(strict=False, allow_no_value=True)
    try:
        parser.read_string(text)
    except configparser.Error:
        return Downloads()
    options: dict[str, str] = {}
    for section in ("global", "install"):
        options |= dict(parser[section]) if section in parser else {}
    environment = dict(parser["environment"]) if "environment" in parser else {}
    for name, value in environment.items():
        if name.startswith("pip_"):
            options[name[4:].replace("_", "-")] = value
    certificates = [environment.get(name.lower(), "") for name in _CERTIFICATES]
    bundle = next(filter(None, [*certificates, options.get("cert", "")]), "")
    # Several extra indexes stand on lines of their own, and only an indented line continues one.
    indented = {name: value.replace("\n", "\n    ") for name, value in options.items() if value}
    lines = [f"{name} = {indented[name]}" for name in _KEEP if name in indented]
    return Downloads(
        pip_conf="\n".join(["[global]", *lines, ""]) if lines else "",
        ca_bundle=bundle,
    )


def parse_pip_options(text: str) -> dict[str, str]:
    """Return the options in a `Downloads.pip_conf`, such as `index-url`, by name."""
    parser = configparser.RawConfigParser()
    parser.read_string(text)
    return dict(parser["global"]) if "global" in parser else {}
