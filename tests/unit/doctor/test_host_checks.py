"""What `doctor` says of a machine without Docker, from the facts that its scripts print."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpu_profile.command import Result
from gpu_profile.declared.check import Check
from gpu_profile.doctor.host import check_host, list_lacking
from gpu_profile.launchers.host import HostLauncher
from gpu_profile.verbs.machine.host import format_checks

H200 = ["NVIDIA H200", "565.57.01", "9.0", "143771 MiB"]
FACTS: Mapping[str, Any] = {
    "host": "gpu7",
    "system": "Linux-6.8",
    "python": "3.12.4",
    "gpus": [H200, H200],
    "directory": "/tmp",
    "free_bytes": 80 * 10**9,
    "perf_event_paranoid": "2",
    "seccomp": "0",
    "capabilities": "0000000000000000",
    "admin_only": "0",
    "programs": ["rsync", "tar"],
}
SYS_ADMIN, PERFMON = f"{1 << 21:016x}", f"{1 << 38:016x}"
NSYS = {
    "path": "/opt/nsys",
    "version": "2025.3.1",
    "origin": "PATH",
    "importer": "/opt/QdstrmImporter",
    "lacks": "",
}


def checks_of(nsys: tuple[Mapping[str, str], ...] = (NSYS,), **facts: object) -> dict[str, Check]:
    """The checks of a machine, by name. The first copy of nsys is the one that jobs use."""
    copies = {"found": nsys, "chosen": nsys[0]["path"] if nsys else ""}
    steps = check_host(HostLauncher(report_dir=Path("/tmp")))
    next(steps)
    steps.send(Result(returncode=0, stdout=json.dumps({**FACTS, **facts})))
    try:
        steps.send(Result(returncode=0, stdout=json.dumps(copies)))
    except StopIteration as stop:
        return {check.name: check for check in stop.value}
    raise AssertionError("it asks more than two questions")


def test_a_machine_that_lacks_nothing() -> None:
    checks = checks_of()
    assert all(check.ok for check in checks.values())
    assert checks["python"].result == "3.12.4 on gpu7, Linux-6.8"
    assert checks["GPU"].result == "2 x NVIDIA H200, 143771 MiB, sm_90, driver 565.57.01"
    assert checks["nsys"].result == "2025.3.1 from PATH: /opt/nsys"
    assert checks["space"].result == "80.0 GB free in /tmp"
    assert list_lacking(FACTS) == {}


def test_nothing_that_a_machine_lacks_keeps_a_job_from_running() -> None:
    bare = checks_of((), gpus=[], programs=[], free_bytes=0, perf_event_paranoid="", seccomp="2")
    assert [name for name, check in bare.items() if check.ok] == ["python"]
    assert not any(check.is_required for check in bare.values())
    assert all(check.advice for name, check in bare.items() if name != "python")


@pytest.mark.parametrize(
    ("lacks", "advice"),
    [
        ("libdw.so.1", "Its importer does not start without libdw.so.1: install that library"),
        ("", "It has no importer: its recordings need another copy's. Install nsight-systems-cli"),
    ],
)
def test_an_nsys_without_an_importer(lacks: str, advice: str) -> None:
    check = checks_of(({**NSYS, "importer": "", "lacks": lacks}, NSYS))["nsys"]
    assert not check.ok
    assert check.advice.startswith(advice)
    assert check.result.endswith("/opt/nsys, newest of 2")


@pytest.mark.parametrize(
    ("level", "capabilities", "allowed"),
    [
        *[("2", "", True), ("-1", "", True), ("3", "", False), ("4", "0", False)],
        *[("", "", False), ("none", "", False), ("4", SYS_ADMIN, True), ("4", PERFMON, True)],
    ],
)
def test_who_may_sample_the_cpu(level: str, capabilities: str, allowed: bool) -> None:
    facts = {**FACTS, "perf_event_paranoid": level, "capabilities": capabilities}
    assert ("sampling" not in list_lacking(facts)) == allowed


@pytest.mark.parametrize(
    ("driver", "capabilities", "allowed"),
    [
        *[("565.57.01", "0", False), ("565.57.01", PERFMON, True), ("550.90", PERFMON, False)],
        *[("550.90", SYS_ADMIN, True), ("unknown", PERFMON, False)],
    ],
)
def test_who_may_read_counters_that_are_for_administrators(
    driver: str, capabilities: str, allowed: bool
) -> None:
    """CAP_PERFMON is enough from driver R565 on."""
    gpus = [[H200[0], driver, *H200[2:]]]
    facts = {**FACTS, "gpus": gpus, "capabilities": capabilities, "admin_only": "1"}
    lacking = list_lacking(facts)
    assert ("gpu-metrics" not in lacking) == allowed
    if not allowed:
        assert lacking["gpu-metrics"].startswith("for administrators only. `invoke counters")


def test_a_machine_without_a_gpu_has_no_counters() -> None:
    assert list_lacking({**FACTS, "gpus": []})["gpu-metrics"].startswith("no GPU. ")


@pytest.mark.parametrize(
    ("seccomp", "capabilities", "ok", "words"),
    [
        ("2", "0", False, "a filter, as containers have"),
        ("2", SYS_ADMIN, True, "a filter, as containers have"),
        ("1", "0", False, "strict"),
        ("", "0", True, "not there"),
    ],
)
def test_a_filter_of_system_calls(seccomp: str, capabilities: str, ok: bool, words: str) -> None:
    check = checks_of(seccomp=seccomp, capabilities=capabilities)["seccomp"]
    assert (check.ok, check.result) == (ok, words)


def test_advice_is_whole_at_any_width() -> None:
    """A table of 80 columns cut its advice in the middle."""
    words = "Install it from https://example.org/a-long/address-that-is-not-cut, then run it again"
    checks = [
        Check(name="nsys", ok=False, result="none \x1b[2J here", advice=words),
        Check(name="disk", ok=True, result=""),
    ]
    lines = [line for part in format_checks(checks, 60) for line in part]
    assert lines[0] == "nsys  missing  none \\x1b[2J here"
    assert lines[-1] == "disk  ok"
    assert max(map(len, lines)) <= 62
    assert " ".join(line.strip(" >") for line in lines[1:-1]) == words
