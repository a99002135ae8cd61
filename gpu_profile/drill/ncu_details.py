"""Read what ncu says of each launch: the CSV of `ncu --import FILE --csv --page details`."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from gpu_profile.errors import GpuProfileError, ReportError, SettingsError, ToolError

MARK = "ncu| "
"""What the agent writes before each line of ncu in the job's output."""
_SPEED = "GPU Speed Of Light Throughput"
_NS = {"ns": 1.0, "nsecond": 1.0, "us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9}
_NS["second"] = 1e9
_RIGHTS = "ERR_NVGPUCTRPERM"
_PRINTED = re.compile(r"^(?:\[\d+\] )?ncu\| ?", re.MULTILINE)


@dataclass(frozen=True)
class Advice:
    """A rule's words. `speedup`: by how many per cent ncu estimates that the kernel gains, or 0."""

    rule: str
    text: str
    speedup: float = 0.0


@dataclass(frozen=True)
class Launch:
    """A launch as ncu measured it: ns, and per cent of the compute and the memory roof."""

    name: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    ns: float
    compute: float
    memory: float
    occupancy: float
    advice: tuple[Advice, ...]

    @property
    def limit(self) -> str:
        """What limits it: the roof that it comes within 60 % of, as ncu's own rule has it."""
        if max(self.compute, self.memory) < 60:
            return "latency"
        return "compute" if self.compute >= self.memory else "memory"


def read_details(log: str) -> tuple[Launch, ...]:
    """Return the launches in a job's output, in the order of their launch.

    Raises the error of what ncu says where it measured none.
    """
    text = "\n".join(line[match.end() :] for line, match in _list_lines(log))
    begin = text.find('"ID",')
    rows = _list_rows(text[begin:]) if begin >= 0 else ()
    launches: dict[str, list[Mapping[str, str]]] = {}
    for row in rows:
        launches.setdefault(row["ID"], []).append(row)
    if not launches:
        raise explain_nothing(text)
    return tuple(_read_launch(launches[number]) for number in sorted(launches, key=int))


def _list_lines(log: str) -> Iterator[tuple[str, re.Match[str]]]:
    for line in log.splitlines():
        if match := _PRINTED.match(line):
            yield line, match


def _list_rows(text: str) -> Iterator[Mapping[str, str]]:
    for row in csv.DictReader(io.StringIO(text)):
        if (row.get("ID") or "").isdecimal():
            yield {key: value or "" for key, value in row.items() if key}


def _read_launch(rows: list[Mapping[str, str]]) -> Launch:
    first = rows[0]
    values = {
        (row["Section Name"], row["Metric Name"]): row for row in rows if row.get("Metric Name")
    }

    def read(section: str, name: str) -> float:
        row = values.get((section, name), {})
        return _read_number(row.get("Metric Value", "")) * _NS.get(row.get("Metric Unit", ""), 1.0)

    return Launch(
        name=first["Kernel Name"],
        grid=_read_shape(first.get("Grid Size", "")),
        block=_read_shape(first.get("Block Size", "")),
        ns=read(_SPEED, "Duration"),
        compute=read(_SPEED, "Compute (SM) Throughput"),
        memory=read(_SPEED, "Memory Throughput"),
        occupancy=read("Occupancy", "Achieved Occupancy"),
        advice=_order_advice(_list_advice(rows)),
    )


def _order_advice(advice: Iterable[Advice]) -> tuple[Advice, ...]:
    """Return one text of each rule: the limit first, then by gain; compression is asked for last.

    Memory is compressible only where a program allocates it so.
    """
    best: dict[str, Advice] = {}
    for each in advice:
        other = best.get(each.rule)
        best[each.rule] = each if other is None or each.speedup > other.speedup else other
    places = {"SOLBottleneck": -1, "MemoryL2Compression": 1}
    return tuple(sorted(best.values(), key=lambda e: (places.get(e.rule, 0), -e.speedup)))


def _list_advice(rows: list[Mapping[str, str]]) -> Iterator[Advice]:
    """Yield the rules that ncu calls optimizations (OPT), not its remarks (INF).

    A "local" speedup is that of one unit of the GPU, and not the kernel's. One below 1 % is no
    advice.
    """
    for row in rows:
        if row.get("Rule Type", "").upper().startswith("OPT"):
            is_kernels = row.get("Estimated Speedup Type", "") == "global"
            speedup = _read_number(row.get("Estimated Speedup", "")) if is_kernels else 0.0
            if is_kernels and speedup < 1:
                continue
            text = " ".join(row.get("Rule Description", "").split())
            yield Advice(row.get("Rule Name", ""), text, speedup)


def _read_number(text: str) -> float:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return 0.0


def _read_shape(text: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", text)))


def explain_nothing(text: str) -> GpuProfileError:
    """Return the error of an ncu that measured no launch, from its own words."""
    if _RIGHTS in text:
        what = "the driver lets only root read GPU counters (ERR_NVGPUCTRPERM)"
        return ToolError(what, "`invoke counters --allow` changes that on a host, as root")
    if "no ncu" in text:
        what = "there is no ncu where the job runs"
        return ToolError(
            what, "Install nsight-compute there; an image has it by --set INSTALL_NCU=true"
        )
    if limit := re.search(r"==LIMIT== *(.+)", text):
        return ReportError(f"ncu measured nothing: {limit[1]}", "Allow more seconds by --limit")
    errors = re.findall(r"==ERROR== *(.+)", text)
    if errors:
        return ReportError(f"ncu measured nothing: {errors[0]}", "Its own words are in drill.log")
    if "No kernels were profiled" in text:
        what = "the program ended before the kernels were launched as in the recording"
        return ReportError(what, "Give the command that repeats the recorded steps after --")
    what = "the job printed nothing of ncu"
    return SettingsError(what, "An image from before `drill` has no part for it: build it again")
