"""Long texts are redacted as re.sub would, and read only near what begins a credential."""

import random
import time

from gpu_profile import redact

WORDS = (
    *("token", "Secret", "PASSWORD", "passphrase", "api_key", "access-key", "pa\u017fsword"),
    *("private_key", "credentials", "webhook", "token is a1b2c3d4", "Authorization", "x-my-token"),
    *(
        "proxy-authorization",
        "Cookie",
        "?sig=",
        "&X-Amz-Signature=",
        "Bearer ",
        "basic\n",
        "bas\u0131c ",
    ),
    *(
        "=",
        ": ",
        " = ",
        "\n",
        "\r\n",
        "'",
        '"',
        " ",
        "::",
        "%3D",
        "***",
        "\u0130",
        "n\u00e9e",
        "x-",
    ),
    *("abcdefgh12345678", "hunter2", "12", "true", "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0", "sk-"),
    *("https://me:pass@host/x", "://", "AKIA" + "A" * 16, "hf_" + "a" * 20, "ghp_" + "b" * 24),
    *("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"),
)


def redact_slowly(text: str) -> str:
    text = redact.CREDENTIAL.sub("***", text)
    for pattern, _ in redact.FREE_TEXT:
        text = pattern.sub(r"\1***", text)
    return text


def test_what_is_hidden_is_what_the_patterns_match() -> None:
    draw = random.Random(27)
    shown = 0
    for _ in range(3000):
        text = "".join(draw.choices(WORDS, k=draw.randint(1, 12)))
        assert redact.redact_text(text) == redact_slowly(text), text
        shown += "***" in redact.redact_text(text)
    assert shown > 1000


def test_much_output_is_read_fast() -> None:
    """The output of a job is redacted while it runs: 100 MB took minutes."""
    draw = random.Random(27)
    text = "\n".join(draw.randbytes(49).hex() for _ in range(3000))
    started = time.process_time()
    expected = redact_slowly(text)
    between = time.process_time()
    assert redact.redact_text(text) == expected == text
    assert time.process_time() - between < (between - started) / 3
