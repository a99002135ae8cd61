"""Credentials do not reach run.json or a log."""

import pytest

from gpu_profile import redact


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
    ],
)
def test_a_command_line_is_kept_without_its_secrets(
    given: tuple[str, ...], shown: tuple[str, ...]
) -> None:
    assert redact.argv(given) == shown
