"""What a reader must know of the reports: versions and devices, never hosts, users or paths."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.store.schema import KERNEL, NVTX, RUNTIME
from gpu_profile.analysis.tables.analysis import Scope

_SYSTEM = ("NvDriverVersion", "CudaDriverVersion", "CpuDescription", "OsDescription")


@dataclass(frozen=True)
class ReportFacts:
    """Of one report; `system` holds only the names in _SYSTEM."""

    nsys: str
    gpus: tuple[str, ...]
    system: Mapping[str, str]
    events: Mapping[str, int]


def report_facts(database: Database, _scope: Scope) -> ReportFacts:
    """One report's part."""
    only = {
        str(name): str(value)
        for name, value in database.rows("TARGET_INFO_SYSTEM_ENV", "name", "value")
        if name in _SYSTEM and value not in ("", "0", None)
    }
    gpus = tuple(str(row[0]) for row in database.rows("TARGET_INFO_GPU", "name") if row[0])
    events = {table: database.count(table) for table in (KERNEL, RUNTIME, NVTX)}
    version = database.export_facts.get("EXPORT_PRODUCT_VERSION", "")
    return ReportFacts(version, gpus, only, events)


def run_facts(parts: Sequence[ReportFacts], ranks: int, clock_error_ns: int = 0) -> dict[str, str]:
    """The facts of all reports as one short list."""
    found = {"Ranks": f"{ranks}", "Reports": f"{len(parts)}"}
    found["GPUs seen by a report"] = _several(_counted(part.gpus) for part in parts)
    found["nsys"] = _several(part.nsys for part in parts)
    found["Driver"] = _several(part.system.get("NvDriverVersion", "") for part in parts)
    found["CUDA"] = _several(_cuda(part.system.get("CudaDriverVersion", "")) for part in parts)
    found["CPU"] = _several(part.system.get("CpuDescription", "") for part in parts)
    found["System"] = _several(part.system.get("OsDescription", "") for part in parts)
    found["Clock error"] = f"{clock_error_ns / 1e3:.1f} us" if clock_error_ns else ""
    total = {table: sum(part.events[table] for part in parts) for table in (KERNEL, RUNTIME, NVTX)}
    found["Events"] = (
        f"{total[KERNEL]:,} kernels, {total[RUNTIME]:,} API calls, {total[NVTX]:,} NVTX"
    )
    return found


def _counted(names: Sequence[str]) -> str:
    return ", ".join(f"{count} x {name}" for name, count in sorted(Counter(names).items()))


def _several(values: object) -> str:
    assert hasattr(values, "__iter__")
    return "; ".join(dict.fromkeys(value for value in values if value))


def _cuda(number: str) -> str:
    """13000 is CUDA 13.0 (cuDriverGetVersion's encoding)."""
    if not number.isdigit():
        return number
    return f"{int(number) // 1000}.{int(number) % 1000 // 10}"
