"""Versions and devices of the reports for the page; no hosts, users or paths."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gpu_profile.analysis.kineto.source import SOURCE
from gpu_profile.analysis.page.parts import format_duration
from gpu_profile.analysis.store.cells import text
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.records import read_records
from gpu_profile.analysis.store.schema import KERNEL, NVTX, RUNTIME
from gpu_profile.analysis.tables.analysis import Scope

_SYSTEM = ("NvDriverVersion", "CudaDriverVersion", "CpuDescription", "OsDescription")


@dataclass(frozen=True)
class PageReport:
    """The facts of one report; `system` holds only the names in _SYSTEM."""

    recorder: str
    gpus: tuple[str, ...]
    system: Mapping[str, str]
    events: Mapping[str, int]


def report_facts(database: Database, _scope: Scope) -> PageReport:
    """Read the facts of one report."""
    only = {
        name: value
        for name, value in read_records(
            database, "TARGET_INFO_SYSTEM_ENV", text("name"), text("value")
        )
        if name in _SYSTEM and value not in ("", "0")
    }
    gpus = read_records(database, "TARGET_INFO_GPU", text("name"))
    events = {table: database.count(table) for table in (KERNEL, RUNTIME, NVTX)}
    version = database.export_facts.get("EXPORT_PRODUCT_VERSION", "")
    recorder = database.export_facts.get(SOURCE[0]) or f"nsys {version}".strip()
    return PageReport(recorder, tuple(name for (name,) in gpus if name), only, events)


def run_facts(parts: Sequence[PageReport], ranks: int, clock_error_ns: int = 0) -> dict[str, str]:
    """The facts of all reports, joined, by label."""
    facts = {"Ranks": f"{ranks}", "Reports": f"{len(parts)}"}
    facts["GPUs seen by a report"] = _join_values(_format_counts(part.gpus) for part in parts)
    facts["Recorded by"] = _join_values(part.recorder for part in parts)
    facts["Driver"] = _join_values(part.system.get("NvDriverVersion", "") for part in parts)
    facts["CUDA"] = _join_values(
        _format_cuda_version(part.system.get("CudaDriverVersion", "")) for part in parts
    )
    facts["CPU"] = _join_values(part.system.get("CpuDescription", "") for part in parts)
    facts["System"] = _join_values(part.system.get("OsDescription", "") for part in parts)
    facts["Clock error"] = format_duration(clock_error_ns) if clock_error_ns else ""
    total = {table: sum(part.events[table] for part in parts) for table in (KERNEL, RUNTIME, NVTX)}
    facts["Events"] = (
        f"{total[KERNEL]:,} kernels, {total[RUNTIME]:,} API calls, {total[NVTX]:,} NVTX"
    )
    return facts


def _format_counts(names: Sequence[str]) -> str:
    return ", ".join(f"{count} x {name}" for name, count in sorted(Counter(names).items()))


def _join_values(values: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(value for value in values if value))


def _format_cuda_version(number: str) -> str:
    """A CUDA version as text: "13.0" for 13000, the encoding of cuDriverGetVersion."""
    if not number.isdigit():
        return number
    return f"{int(number) // 1000}.{int(number) % 1000 // 10}"
