"""Credentials do not reach run.json or a log."""

import pytest

from gpu_profile import redact
from gpu_profile.analysis.scrub.redactor import Redactor
from gpu_profile.redact import CommandLine
from tests.further import keep_first


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        (("--token", "abc"), ("--token", "***")),
        (("--hf-token=abc",), ("--hf-token=***",)),
        (("API_KEY=abc", "x"), ("API_KEY=***", "x")),
        (("--password", "--verbose"), ("--password", "--verbose")),
        (("AKIA" + "A" * 16,), ("***",)),
        (("https://me:pass@host/x",), ("https://***@host/x",)),
        (("hf_" + "a" * 34,), ("***",)),
        (("--tokens", "5"), ("--tokens", "***")),
        (("python", "train.py", "--lr=1"), ("python", "train.py", "--lr=1")),
        (
            ("DB_PASS=x", "--auth", "y", "--pw", "z"),
            ("DB_PASS=***", "--auth", "***", "--pw", "***"),
        ),
        (("mysql", "-p", "x"), ("mysql", "-p", "***")),
        (("-p", "8080:80", "-p", "22"), ("-p", "8080:80", "-p", "22")),
        (("curl", "-u", "bob:pw", "-ubob:pw"), ("curl", "-u", "bob:***", "-ubob:***")),
        (("python", "-u", "train.py"), ("python", "-u", "train.py")),
        (("-H", "Authorization: Bearer a b"), ("-H", "Authorization: ***")),
        (
            ("bash", "-c", "export KEY='a b'; train --password c -u d:e -p f --lr 1"),
            ("bash", "-c", "export KEY=***; train --password *** -u d:*** -p *** --lr 1"),
        ),
        (
            ("--max-tokens", "512", "--tokenizer", "gpt2"),
            ("--max-tokens", "512", "--tokenizer", "gpt2"),
        ),
        (("--monkey", "x", "MONKEY=y"), ("--monkey", "x", "MONKEY=y")),
        ((), ()),
    ],
)
def test_a_command_line_is_kept_without_its_secrets(
    given: tuple[str, ...], shown: tuple[str, ...]
) -> None:
    assert CommandLine().redact_argv(given) == shown


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("logged in with token=abcdefgh", "logged in with token=***"),
        ("> Authorization: Token abc", "> Authorization: ***"),
        ("got ghp_" + "a" * 36, "got ***"),
        ("fetching https://me:pass@host/x", "fetching https://***@host/x"),
        ("step 5, tokens: 123456, loss 2.5", "step 5, tokens: 123456, loss 2.5"),
    ],
)
def test_a_line_of_a_log(line: str, shown: str) -> None:
    assert redact.redact_text(line) == shown
    assert redact.redact_text(shown) == shown


def test_values_of_variables_named_like_credentials() -> None:
    environ = {"HF_TOKEN": "abcdef", "DB_PASS": "abcdefgh", "MODE": "abcdef2", "PIN_KEY": "12"}
    values = redact.secret_values(environ)
    assert values == ("abcdefgh", "abcdef")
    assert redact.without("abcdefgh abcdef token=abcdefx", values) == "*** *** token=***x"


@pytest.mark.parametrize("unit", ["x", "-", "=", "token", "://"])
def test_a_long_line_is_searched_once(unit: str) -> None:
    """Progress bars and base64 have thousands of characters a line: no search that starts anew."""
    line = (unit * 200_000)[:200_000]
    assert redact.without(line, ()) == line


@pytest.mark.parametrize("unit", keep_first(2, ["eyJ", "eyJa", "x-", "/", "~a", "-p-"]))
def test_a_line_of_beginnings_is_searched_once(unit: str) -> None:
    """Each unit begins a credential: 64 kB of `x-` took 28 s, of `eyJ` 1 s, of `/` 70 s."""
    line = (unit * 64_000)[:64_000]
    assert redact.redact_text(line) == line
    assert Redactor().leaks(line) == ""


TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (f"sent {TOKEN}, done", "sent ***, done"),
        (f"sent '{TOKEN}'", "sent '***'"),
        (f"a.{TOKEN}", "a.***"),
        (f"session_{TOKEN}", "***"),
        ("eyJshort.eyJzdWIiOiIxIn0", "eyJshort.eyJzdWIiOiIxIn0"),
        ("eyJhbGciOiJIUzI1NiJ9 alone", "eyJhbGciOiJIUzI1NiJ9 alone"),
    ],
)
def test_a_json_web_token_is_hidden(line: str, shown: str) -> None:
    assert redact.redact_text(line) == shown
