"""doctor for machines without Docker: what is there, what profiling may do, and what to do.

machine_facts.py and find_nsys.py of Container-Root/agent get the facts where the job would run.
"""

from collections.abc import Mapping
from typing import Any

from gpu_profile.command import Steps
from gpu_profile.declared.check import Check
from gpu_profile.launchers.agent.scripts import Scripted

# Of linux/capability.h, https://man7.org/linux/man-pages/man7/capabilities.7.html
_CAP_SYS_ADMIN, _CAP_PERFMON = 21, 38
# From driver R565 on, CAP_PERFMON gives access to GPU counters too.
_PERFMON_DRIVER = 565
_SPARE_BYTES = 5 * 10**9
_INSTALL = (
    "Install nsight-systems-cli from NVIDIA's repository (apt or dnf), or nsight-systems from"
    " Debian's non-free or Ubuntu's multiverse: docs/host.md has the commands"
)
_ALLOW = "`invoke counters --allow`, then a reboot; or run as root; --preset light needs none"

Facts = Mapping[str, Any]


def check_host(launcher: Scripted) -> Steps[tuple[Check, ...]]:
    """Return the checks of the machine on which the launcher's jobs run."""
    facts = yield from launcher.facts()
    copies = yield from launcher.copies()
    return (
        _make_check("python", True, f"{facts['python']} on {facts['host']}, {facts['system']}"),
        _check_gpu(facts),
        _check_nsys(copies),
        _check_space(facts),
        _check_sampling(facts),
        _check_seccomp(facts),
        _check_counters(facts),
        _make_check("rsync", "rsync" in facts["programs"], "", "Without it, tar over ssh copies"),
    )


def list_lacking(facts: Facts) -> Mapping[str, str]:
    """Return which of `sampling` and `gpu-metrics` this machine does not allow, and why."""
    checks_by_name = {"sampling": _check_sampling(facts), "gpu-metrics": _check_counters(facts)}
    return {
        name: f"{check.result}. {check.advice}"
        for name, check in checks_by_name.items()
        if not check.ok
    }


def _make_check(name: str, ok: bool, observation: str, advice: str = "") -> Check:
    return Check(name=name, ok=ok, result=observation, advice=advice)


def _check_gpu(facts: Facts) -> Check:
    gpus = facts["gpus"]
    if not gpus:
        advice = "CPU work can be profiled; for GPU work install NVIDIA's driver"
        return _make_check("GPU", False, "none that nvidia-smi shows", advice)
    name, driver, capability, memory = gpus[0]
    observation = (
        f"{len(gpus)} x {name}, {memory}, sm_{capability.replace('.', '')}, driver {driver}"
    )
    return _make_check("GPU", True, observation)


def _check_nsys(copies: Facts) -> Check:
    chosen = next((c for c in copies["found"] if c["path"] == copies["chosen"]), None)
    if chosen is None:
        return _make_check("nsys", False, "not found", f"{_INSTALL}. Or set NSYS")
    others = len(copies["found"]) - 1
    observation = f"{chosen['version']} from {chosen['origin']}: {chosen['path']}"
    more = f", newest of {others + 1}" if others else ""
    advice = f"It has no importer: its recordings need another copy's. {_INSTALL}"
    if chosen["lacks"]:
        advice = f"Its importer does not start without {chosen['lacks']}: install that library"
    return _make_check("nsys", bool(chosen["importer"]), observation + more, advice)


def _check_space(facts: Facts) -> Check:
    free = facts["free_bytes"]
    observation = f"{free / 1e9:.1f} GB free in {facts['directory']}"
    return _make_check(
        "space", free >= _SPARE_BYTES, observation, "Reports take GBs: name a roomier directory"
    )


def _has_capability(facts: Facts, capability: int) -> bool:
    capabilities = int(facts["capabilities"] or "0", 16)
    return bool(capabilities >> capability & 1)


def _check_sampling(facts: Facts) -> Check:
    """Check perf_event_open on own processes: it needs level 2 or lower, or a capability."""
    level = facts["perf_event_paranoid"]
    privileged = _has_capability(facts, _CAP_SYS_ADMIN) or _has_capability(facts, _CAP_PERFMON)
    is_number = level.lstrip("-").isdecimal()
    ok = privileged or (is_number and int(level) <= 2)
    observation = f"perf_event_paranoid is {level or 'unknown'}" + (", privileged" * privileged)
    return _make_check(
        "CPU sampling", ok, observation, "As root: sysctl kernel.perf_event_paranoid=2"
    )


def _check_seccomp(facts: Facts) -> Check:
    words = {"0": "no filter", "1": "strict", "2": "a filter, as containers have"}
    filtered = facts["seccomp"] not in ("", "0")
    ok = not filtered or _has_capability(facts, _CAP_SYS_ADMIN)
    advice = "It may forbid CPU sampling: --cap-add=SYS_ADMIN, or a profile with perf_event_open"
    return _make_check("seccomp", ok, words.get(facts["seccomp"], "not there"), advice)


def _check_counters(facts: Facts) -> Check:
    restricted = facts["admin_only"] == "1"
    perfmon = _has_capability(facts, _CAP_PERFMON) and _parse_driver(facts) >= _PERFMON_DRIVER
    ok = bool(facts["gpus"]) and (
        not restricted or _has_capability(facts, _CAP_SYS_ADMIN) or perfmon
    )
    if not facts["gpus"]:
        return _make_check(
            "GPU counters", False, "no GPU", "A GPU counts them: --preset light needs none"
        )
    observation = "for administrators only" if restricted else "open to all"
    return _make_check(
        "GPU counters", ok, observation + (", which we are" if ok and restricted else ""), _ALLOW
    )


def _parse_driver(facts: Facts) -> int:
    major = str(facts["gpus"][0][1]).partition(".")[0] if facts["gpus"] else ""
    return int(major) if major.isdecimal() else 0
