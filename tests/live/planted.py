"""Secrets planted in a job's environment, and the places that must not hold them."""

import contextlib
import os
from pathlib import Path

SECRETS = {
    "API_TOKEN": f"planted-token-4711-{os.getpid()}",
    "MY_DB_PASS": f"planted-pass-4712-{os.getpid()}",
    "PLAIN_THING": f"planted-plain-4713-{os.getpid()}",
}
"""Of this process: `found_in_arguments` looks at all programs of the machine, and a test beside
this one may put its own on a command line."""
SWITCHES = {"NCCL_NVLS_ENABLE": "0", "NVSHMEM_DISABLE_NVLS": "1", "TORCH_NCCL_BLOCKING_WAIT": "1"}
PLANTED = {**SECRETS, **SWITCHES}
PROGRAM = (
    "import os, subprocess, sys, time\n"
    f"names = {sorted(PLANTED)!r}\n"
    "assert all(os.environ[name] for name in names)\n"
    "print('got all', len(names), os.environ['API_TOKEN'], os.environ['MY_DB_PASS'], flush=True)\n"
    "subprocess.run(['sleep', '1'])\n"
    "time.sleep(float(sys.argv[1]))\n"
)
"""It has all the variables, prints two of them, and has a child that inherits them."""


def found_in(directory: Path) -> list[str]:
    """Which secret stands in which file below a directory: `API_TOKEN in rank0.vm.nsys-rep`."""
    places = []
    for path in sorted(directory.rglob("*")):
        content = path.read_bytes() if path.is_file() else b""
        places += [f"{n} in {path.name}" for n, text in SECRETS.items() if text.encode() in content]
    return places


def found_in_arguments() -> list[str]:
    """The processes of this machine that have a secret in their arguments."""
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes()
            commands += [str(words) for text in SECRETS.values() if text.encode() in words]
    return commands


def assert_hidden(directory: Path, output: str = "output.log") -> None:
    """The job ran with its variables, its report holds events, and nothing holds a secret."""
    assert "got all 6 *** ***" in (directory / output).read_text()
    assert list(directory.glob("*.nsys-rep"))
    assert list(directory.glob("*.sqlite"))
    assert found_in(directory) == []
