"""What the tests share: real parts asked for by name, fake programs, hostile names."""

import gc
import os
import shutil
import signal
import subprocess
import zlib
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from gpu_profile import process
from gpu_profile.command import make_command
from gpu_profile.settings.settings import KEYS

PARTS = (
    "chromium",
    "dask",
    "docker",
    "image",
    "kubernetes",
    "mpi",
    "nsys",
    "registry",
    "shells",
    "slurm",
    "sshd",
    "wheel",
)
HOSTILE_NAMES = (
    "with space",
    "single'quote",
    'double"quote',
    "; echo pwned",
    "$(touch pwned)",
    "new\nline",
    "ünïcødé",
    "-leading-dash",
    "back\\slash",
    "%q{HOME} 100%",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--require",
        action="append",
        default=[],
        metavar="NAME",
        help=f"fail, and do not skip, where this part is missing: all, {', '.join(PARTS)}",
    )
    parser.addoption(
        "--share",
        default="1/1",
        metavar="K/N",
        help="run share K of N: a function's tests together",
    )
    parser.addoption("--image", default="", help="the image under test; default: the settings'")


def pytest_configure(config: pytest.Config) -> None:
    for part in PARTS:
        config.addinivalue_line("markers", f"{part}: needs {part} on this machine")
    config.addinivalue_line("markers", "drawn: draws its cases from a seed (tests/seeds.py)")
    config.addinivalue_line("markers", "recorded: reads whole recordings: check leaves it to CI")
    config.addinivalue_line("markers", "further: proves once more what check proves: left to CI")
    config.addinivalue_line("markers", "slow: takes a minute or more")
    config.addinivalue_line("markers", "alone: changes the cluster for all of its users")
    # A shell has what it puts in the background ignore Ctrl-C, and so do its children.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # nohup ignores SIGHUP, and verbs leave it ignored. A handler ends with exec, SIG_IGN does not.
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)
    # The shell's own settings would win over the `.env` that a test writes.
    for key in KEYS:
        if not key.name.endswith("_proxy"):
            os.environ.pop(key.name, None)
    wanted = set(config.getoption("--require"))
    if unknown := wanted - {*PARTS, "all"}:
        raise pytest.UsageError(
            f"--require {', '.join(sorted(unknown))}: use all, {', '.join(PARTS)}"
        )


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Print a failure when it happens: the details follow at the end, after minutes in CI."""
    if report.failed and "PYTEST_XDIST_WORKER" not in os.environ:
        crash = getattr(report.longrepr, "reprcrash", None)
        reason = str(crash.message if crash else report.longrepr).strip().partition("\n")[0]
        print(f"\nfailed: {report.nodeid}: {reason:.300}", flush=True)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while tests are collected: 0.5 s of CPU in each process of tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the share of the tests that --share names. Every file has some tests in each."""
    share, count = map(int, config.getoption("--share").split("/"))
    left_out = [item for item in items if find_share(item.nodeid, count) != share]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if find_share(item.nodeid, count) == share]


def find_share(nodeid: str, count: int) -> int:
    return zlib.crc32(nodeid.partition("[")[0].encode()) % count + 1


def pytest_collection_finish() -> None:
    """Leave what is there now out of garbage collection, and collect seldom: 5 % of the CPU time.

    A collection goes through 4,000 tests and all modules, of which nothing becomes garbage.
    """
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)


@pytest.fixture(scope="session")
def require(pytestconfig: pytest.Config) -> Callable[[str, object], None]:
    """`require("docker", reason_if_missing)`: skip with the reason, or fail under --require."""
    wanted = set(pytestconfig.getoption("--require"))

    def check(part: str, missing: object) -> None:
        assert part in PARTS
        if not missing:
            return
        if wanted & {part, "all"}:
            pytest.fail(f"{part} is required: {missing}", pytrace=False)
        pytest.skip(f"{part}: {missing}")

    return check


def _missing_program(name: str) -> str:
    return "" if shutil.which(name) else f"{name} is not installed"


@pytest.fixture(scope="session")
def docker(require: Callable[[str, object], None]) -> None:
    """A Docker Engine with buildx that answers."""
    require("docker", _missing_program("docker"))
    engine = process.run(make_command("docker", "info", "--format={{.ServerVersion}}"))
    require("docker", engine.returncode and engine.last_line)
    buildx = process.run(make_command("docker", "buildx", "version"))
    require("docker", buildx.returncode and "buildx is missing")


@pytest.fixture(scope="session")
def embedded(docker: None, require: Callable[[str, object], None]) -> None:
    """An engine, and what makes the embedded base on it."""
    missing = process.find_program("mmdebstrap") is None
    require("image", missing and "mmdebstrap is not installed: no embedded base")


@pytest.fixture(scope="session")
def image(docker: None, require: Callable[[str, object], None], pytestconfig: pytest.Config) -> str:
    """The name of the image under test, which is on the engine."""
    name = str(pytestconfig.getoption("--image")) or "gpu-profile:latest"
    answer = process.run(make_command("docker", "image", "inspect", "--format={{.Id}}", name))
    require("image", answer.returncode and f"{name} is not built; `invoke build` makes it")
    return name


@pytest.fixture(params=HOSTILE_NAMES, ids=repr)
def hostile_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def fake_tool(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Callable[[], list[list[str]]]]:
    """`calls = fake_tool("docker", "echo said; exit 3")`: a script first on PATH.

    `calls()` returns the words of each call so far.
    """
    directory = tmp_path / "bin"

    def make(name: str, body: str = "") -> Callable[[], list[list[str]]]:
        directory.mkdir(exist_ok=True)
        log = directory / f"{name}.calls"
        script = directory / name
        record = f"""{{ printf '%s\\0' "$@"; printf '\\1'; }} >> '{log}'"""
        script.write_text(f"#!/usr/bin/env bash\n{record}\n{body}\n")
        script.chmod(0o755)

        def calls() -> list[list[str]]:
            text = log.read_text() if log.exists() else ""
            return [call.split("\0")[:-1] for call in text.split("\1")[:-1]]

        return calls

    monkeypatch.setenv("PATH", str(directory), prepend=":")
    return make


@pytest.fixture(scope="session")
def golden(pytestconfig: pytest.Config) -> Callable[[str, str], None]:
    """`golden("name", text)`: equal to tests/golden/name, whole. GOLDEN=write renews the files."""
    directory = pytestconfig.rootpath / "tests" / "golden"

    def check(name: str, text: str) -> None:
        path = directory / name
        if os.environ.get("GOLDEN") == "write":
            path.write_text(text, encoding="utf-8")
        assert path.exists(), f"no golden file {path}; GOLDEN=write makes it"
        assert text == path.read_text(encoding="utf-8")

    return check


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 3 MB. Mounting one takes root."""
    place = tmp_path / "small"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)
