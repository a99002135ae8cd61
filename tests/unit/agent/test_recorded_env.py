"""Environments are masked in a recording, whole and nothing else."""

from pathlib import Path

import pytest
from kept_streams import pair_streams
from recorded_env import mask_stream, secret_names, without_callbacks

from gpu_profile.redact import is_secret

SECRET_NAMES = (
    *("ACCESSKEY", "ACCESS_TOKENS", "APIKEYS"),
    *("API_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
    *("AZURE_STORAGE_KEY", "BASIC_AUTH", "CLIENT_SECRET"),
    *("CREDS", "DB_CREDS", "DB_PASS"),
    *("GH_PAT", "GOOGLE_APPLICATION_CREDENTIALS", "GPG_PASSPHRASE"),
    *("HF_TOKEN", "HTTP_AUTHORIZATION", "JWT"),
    *("MY_KEY", "NGC_API_KEY", "OPENAI_APIKEY"),
    *("PGPASSWORD", "PRIVATEKEY", "REDIS_PW"),
    *("SENTRY_DSN", "SESSION_COOKIE", "SLACK_WEBHOOK_URL"),
    *("SSH_PRIVATE_KEY", "db_password", "wandb_api_key"),
)
HARMLESS_NAMES = (
    *("AUTHOR", "BYPASS", "COMPASS"),
    *("CUDA_VISIBLE_DEVICES", "HF_HOME", "HOME"),
    *("KEYBOARD", "MONKEY", "NCCL_DEBUG"),
    *("OLDPWD", "PATH", "PWD"),
    *("PYTHONPATH", "RANK", "TOKENIZER"),
    *("TOKENIZERS_PARALLELISM", "WORLD_SIZE"),
)


def length(number: int) -> bytes:
    """As protobuf writes it: 200 is two bytes."""
    head = bytes([number & 0x7F | (0x80 if number > 0x7F else 0)])
    return head + (length(number >> 7) if number > 0x7F else b"")


def of_a_process(*entries: bytes) -> bytes:
    return b"B\tchild.py" + b"".join(b"J" + length(len(e)) + e for e in entries) + b"P@"


def of_the_launch(name: bytes, value: bytes) -> bytes:
    inner = b"\n" + length(len(name)) + name + b"\x12" + length(len(value)) + value
    return b"\n" + length(len(inner)) + inner


def masked(tmp_path: Path, content: bytes, **environ: str) -> bytes:
    path = tmp_path / "recorded.qdstrm"
    path.write_bytes(content)
    with path.open("r+b") as file:
        mask_stream(file, environ)
    return path.read_bytes()


def test_every_process_of_the_machine_whatever_its_variables_are(tmp_path: Path) -> None:
    long = b"v" * 40_000
    content = b"\x00\xffevents" + of_a_process(b"HOME=/root", b"X=" + long, b"E=", b"F()=() {\n}")
    expected = b"\x00\xffevents" + of_a_process(
        b"HOME=*****", b"X=" + b"*" * 40_000, b"E=", b"F()=******"
    )
    assert masked(tmp_path, content + content) == expected + expected


def test_a_single_entry_is_masked_where_it_is_ours_and_a_part_of_an_event_is_not(
    tmp_path: Path,
) -> None:
    ours, event = of_a_process(b"KEY=abc"), b"J\x09step=1234" + b"J\x09step=123"
    assert masked(tmp_path, ours + event, KEY="abc") == of_a_process(b"KEY=***") + event


def test_the_launched_program_and_the_agent(tmp_path: Path) -> None:
    capability = of_the_launch(b"HasCuBLASEvents", b"1")
    content = capability + of_the_launch(b"DB_PASS", b"pw-1") + b"\0A=\0DB_PASS=pw-1\0"
    expected = capability + of_the_launch(b"DB_PASS", b"****") + b"\0A=\0DB_PASS=****\0"
    assert masked(tmp_path, content, DB_PASS="pw-1", A="") == expected


def test_a_credential_goes_wherever_it_stands(tmp_path: Path) -> None:
    assert masked(tmp_path, b"curl -H hunter2xyz", API_TOKEN="hunter2xyz") == b"curl -H **********"


@pytest.mark.parametrize(("value", "kept"), [(b"3", True), (b"three", False)])
def test_ranks_stay_where_they_are_numbers(tmp_path: Path, value: bytes, kept: bool) -> None:
    content = of_a_process(b"RANK=" + value, b"A=b")
    expected = of_a_process(b"RANK=" + (value if kept else b"*****"), b"A=*")
    assert masked(tmp_path, content) == expected


def test_an_empty_recording(tmp_path: Path) -> None:
    assert masked(tmp_path, b"", A="b") == b""


def test_what_looks_like_a_credential() -> None:
    secret = {"HF_TOKEN": "x", "DB_PASS": "y", "NGC_KEY": "z", "URL": "https://u:p@host/"}
    harmless = {
        "TOX_PASSENV": "a",
        "KEYBOARD": "b",
        "PWD": "/root",
        "AUTHOR": "me",
        "API_TOKEN": "",
    }
    assert secret_names({**secret, **harmless}) == sorted(secret)


def test_windows_are_paired_in_their_order(tmp_path: Path) -> None:
    files = [(tmp_path / str(n)).open("wb") for n in range(11)]
    reports = sorted(tmp_path / f"rank0.vm.{n}.nsys-rep" for n in range(1, 12))
    assert [report.name.split(".")[2] for _, report in pair_streams(files, reports)] == [
        str(n) for n in range(1, 12)
    ]
    assert pair_streams(files, reports[1:]) == []
    for file in files:
        file.close()


@pytest.mark.parametrize("name", [*SECRET_NAMES, *HARMLESS_NAMES])
def test_the_agent_and_the_package_take_the_same_names_for_secrets(name: str) -> None:
    """The agent imports nothing of the package, so it has a pattern of its own."""
    value = "abcdefgh1234"
    expected = name in SECRET_NAMES
    assert (is_secret(name, value), secret_names({name: value}) == [name]) == (expected, expected)


@pytest.mark.parametrize(
    ("options", "is_silent"),
    [
        (("--cuda-graph-trace=node:host-only", "--flush-on-cudaprofilerstop=false"), True),
        (("--cuda-graph-trace=graph", "--flush-on-cudaprofilerstop=false"), False),
        (("--cuda-graph-trace=node:host-only",), False),
    ],
    ids=["armed", "with graphs as a whole", "of --preset serve"],
)
def test_calls_of_an_armed_program_call_nsys_back_where_its_options_need_it(
    options: tuple[str, ...], is_silent: bool
) -> None:
    made = without_callbacks({"NSYS_CONFIG_DIRECTIVES": "UseLZ4=false"}, options)
    given, *ours = made.pop("NSYS_CONFIG_DIRECTIVES").split(";")
    assert (made, given, len(ours)) == ({}, "UseLZ4=false", 4 if is_silent else 0)
    assert ("CUPTIDisableProfilerControlCallbacks=true" in ours) == is_silent
