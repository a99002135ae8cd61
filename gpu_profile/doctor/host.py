"""doctor for machines without Docker: what is there, what profiling may do, what to do about it.

The facts come from machine_facts.py and find_nsys.py in Container-Root/agent, run where the job
would run.
"""

from collections.abc import Mapping
from typing import Any

from gpu_profile.check import Check
from gpu_profile.command import Steps
from gpu_profile.launchers.agent.scripts import Scripted

_CAP_SYS_ADMIN, _CAP_PERFMON = 21, 38
# From driver R565 on, CAP_PERFMON opens the GPU's counters too.
_PERFMON_DRIVER = 565
_SPARE_BYTES = 5 * 10**9
_ALLOW = "`invoke counters --allow`, then a reboot; or run as root; light needs none"

Facts = Mapping[str, Any]


def checks(launcher: Scripted) -> Steps[tuple[Check, ...]]:
    facts = yield from launcher.facts()
    copies = yield from launcher.copies()
    return (
        _line("python", True, f"{facts['python']} on {facts['host']}, {facts['system']}"),
        _gpu(facts),
        _nsys(copies),
        _space(facts),
        _sampling(facts),
        _seccomp(facts),
        _counters(facts),
        _line("rsync", "rsync" in facts["programs"], "", "Without it, tar over ssh copies"),
    )


def lacking(facts: Facts) -> Mapping[str, str]:
    """What presets may not ask for here, and why: of `sampling` and `gpu-metrics`."""
    found = {"sampling": _sampling(facts), "gpu-metrics": _counters(facts)}
    return {name: f"{check.found}. {check.advice}" for name, check in found.items() if not check.ok}


def _line(name: str, ok: bool, found: str, advice: str = "") -> Check:
    return Check(name=name, ok=ok, found=found, advice=advice)


def _gpu(facts: Facts) -> Check:
    gpus = facts["gpus"]
    if not gpus:
        advice = "CPU work can be profiled; for GPU work install NVIDIA's driver"
        return _line("GPU", False, "none that nvidia-smi shows", advice)
    name, driver, capability, memory = gpus[0]
    found = f"{len(gpus)} x {name}, {memory}, sm_{capability.replace('.', '')}, driver {driver}"
    return _line("GPU", True, found)


def _nsys(copies: Facts) -> Check:
    chosen = next((c for c in copies["found"] if c["path"] == copies["chosen"]), None)
    if chosen is None:
        return _line("nsys", False, "not found", "Install nsight-systems-cli, or set NSYS")
    others = len(copies["found"]) - 1
    found = f"{chosen['version']} from {chosen['origin']}: {chosen['path']}"
    more = f", newest of {others + 1}" if others else ""
    advice = (
        f"Its importer does not start without {chosen['lacks']}: install that library"
        if chosen["lacks"]
        else "It has no importer: its recordings need another copy's. Install nsight-systems-cli"
    )
    return _line("nsys", bool(chosen["importer"]), found + more, advice)


def _space(facts: Facts) -> Check:
    free = facts["free_bytes"]
    found = f"{free / 1e9:.1f} GB free in {facts['directory']}"
    return _line("space", free >= _SPARE_BYTES, found, "Reports take GBs: name a roomier directory")


def _capable(facts: Facts, capability: int) -> bool:
    held = int(facts["capabilities"] or "0", 16)
    return bool(held >> capability & 1)


def _sampling(facts: Facts) -> Check:
    """perf_event_open for one's own processes: level 2 or lower, or a capability."""
    level = facts["perf_event_paranoid"]
    privileged = _capable(facts, _CAP_SYS_ADMIN) or _capable(facts, _CAP_PERFMON)
    known = level.lstrip("-").isdecimal()
    ok = privileged or (known and int(level) <= 2)
    found = f"perf_event_paranoid is {level or 'unknown'}" + (", privileged" * privileged)
    return _line("CPU sampling", ok, found, "As root: sysctl kernel.perf_event_paranoid=2")


def _seccomp(facts: Facts) -> Check:
    words = {"0": "no filter", "1": "strict", "2": "a filter, as containers have"}
    filtered = facts["seccomp"] not in ("", "0")
    ok = not filtered or _capable(facts, _CAP_SYS_ADMIN)
    advice = "It may forbid CPU sampling: --cap-add=SYS_ADMIN, or a profile with perf_event_open"
    return _line("seccomp", ok, words.get(facts["seccomp"], "not there"), advice)


def _counters(facts: Facts) -> Check:
    restricted = facts["admin_only"] == "1"
    perfmon = _capable(facts, _CAP_PERFMON) and _driver(facts) >= _PERFMON_DRIVER
    ok = bool(facts["gpus"]) and (not restricted or _capable(facts, _CAP_SYS_ADMIN) or perfmon)
    if not facts["gpus"]:
        return _line("GPU counters", False, "no GPU", "They are of the GPU: light needs none")
    found = "for administrators only" if restricted else "open to all"
    return _line(
        "GPU counters", ok, found + (", which we are" if ok and restricted else ""), _ALLOW
    )


def _driver(facts: Facts) -> int:
    major = str(facts["gpus"][0][1]).partition(".")[0] if facts["gpus"] else ""
    return int(major) if major.isdecimal() else 0
