"""Sum the times of modules by module, class, or line, and fold deep modules into those around."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from gpu_profile.analysis.modules.marks import Module, cut_depth
from gpu_profile.analysis.modules.module_times import NUMBERS, ModuleTime
from gpu_profile.analysis.modules.owners import UNATTRIBUTED


@dataclass(frozen=True)
class Group:
    """A row of a table: its name, the sums of its members, and the module that it is named after.

    `remark` is set for unattributed time: the phases that it was launched in, "backward 62 %, step
    38 %".
    """

    name: str
    module: Module
    members: tuple[Module, ...]
    sums: ModuleTime
    remark: str = ""


def sum_times(module: Module, times: Iterable[ModuleTime]) -> ModuleTime:
    """The sums of all times, as those of `module`."""
    members = list(times)
    sums = {name: sum(getattr(time, name) for time in members) for name in NUMBERS}
    return ModuleTime(module, **sums)


def merge_ranks(times: Iterable[ModuleTime]) -> list[ModuleTime]:
    """One entry for each module, summed over the ranks."""
    by_module: dict[Module, list[ModuleTime]] = {}
    for time in times:
        by_module.setdefault(time.module, []).append(time)
    return [sum_times(module, members) for module, members in by_module.items()]


def group_modules(times: Sequence[ModuleTime], by: str = "module", depth: int = 0) -> list[Group]:
    """The groups of `times` (of any number of ranks) by "module", "class" or "line".

    `depth` 2 counts "transformer.h.3.attn" for "transformer.h"; 0 folds nothing.
    """
    module_by_name = {time.module.name: time.module for time in times}
    groups: dict[str, dict[Module, list[ModuleTime]]] = {}
    for time in merge_ranks(times):
        holder = find_holder(time.module, depth, module_by_name)
        groups.setdefault(name_group(holder, by), {}).setdefault(holder, []).append(time)
    return [_make_group(name, holders) for name, holders in groups.items()]


def find_holder(module: Module, depth: int, module_by_name: Mapping[str, Module]) -> Module:
    """The module of the first `depth` parts of the name; one without a class if it has no forward
    of its own (a ModuleList).
    """
    name = cut_depth(module, depth)
    return module if name == module.name else module_by_name.get(name, Module(name))


def name_group(module: Module, by: str) -> str:
    """The name of the row that a module counts for, by "module", "class" or "line"."""
    if module.kind == UNATTRIBUTED:
        return f"({UNATTRIBUTED})"
    if not module.is_real or by == "module":
        return module.name
    return (module.kind if by == "class" else module.place) or module.name


def _make_group(name: str, holders: Mapping[Module, Sequence[ModuleTime]]) -> Group:
    members = [time for times in holders.values() for time in times]
    first = next(iter(holders))
    sums = sum_times(first, members)
    calls = sum(_count_calls(holder, times) for holder, times in holders.items())
    group = Group(name, first, tuple(holders), replace(sums, calls=calls))
    return replace(group, remark=_list_phases(members)) if first.kind == UNATTRIBUTED else group


def _count_calls(holder: Module, times: Sequence[ModuleTime]) -> int:
    """The calls of the holder itself, or of the outermost modules in it."""
    least = min(time.module.name.count(".") for time in times)
    outermost = [time for time in times if time.module.name.count(".") == least]
    holder_times = [time for time in times if time.module == holder]
    return sum(time.calls for time in holder_times or outermost)


def _list_phases(times: Sequence[ModuleTime]) -> str:
    """The phases of unattributed time, the largest first: "backward 62 %, step 38 %"."""
    total = sum(time.unattributed for time in times)
    ordered = sorted(times, key=lambda time: (-time.unattributed, time.module))
    return ", ".join(
        f"{time.module.name.strip('()')} {100 * time.unattributed / total:.0f} %"
        for time in ordered
        if time.unattributed
    )
