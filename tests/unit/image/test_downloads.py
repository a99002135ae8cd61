"""The machine's own pip and certificates, as builds take them over."""

import configparser

import pytest

from gpu_profile.image.downloads import Downloads, parse_pip_config, parse_pip_options

FILES = """\
[global]
index-url = https://mirror.example/simple
cert = /etc/corp.pem
find-links = /opt/wheels

[install]
trusted-host = mirror.example
"""


def test_files_then_environment() -> None:
    downloads = parse_pip_config(
        FILES + "[environment]\nPIP_INDEX_URL=https://user:pw@other.example/simple\n"
    )
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(downloads.pip_conf)
    assert dict(parser["global"]) == {
        "index-url": "https://user:pw@other.example/simple",
        "trusted-host": "mirror.example",
    }
    assert downloads.ca_bundle == "/etc/corp.pem"


@pytest.mark.parametrize("name", ["PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
def test_certificates_of_the_environment_win(name: str) -> None:
    assert parse_pip_config(f"{FILES}[environment]\n{name}=/x.pem\n").ca_bundle == "/x.pem"


@pytest.mark.parametrize("text", ["", "[environment]\n", "no section = 1\n", "[global\n"])
def test_nothing_configured(text: str) -> None:
    assert parse_pip_config(text) == Downloads()


def test_several_extra_indexes() -> None:
    """Without an indent pip refuses the second one: option 'https' already exists."""
    text = (
        "[global]\nextra-index-url =\n    https://a.example/simple\n    https://b.example/simple\n"
    )
    options = parse_pip_options(parse_pip_config(text).pip_conf)
    assert options["extra-index-url"].split() == [
        "https://a.example/simple",
        "https://b.example/simple",
    ]
