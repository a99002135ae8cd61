"""Which findings are true of the causes that a synthetic program plants."""

from collections.abc import Sequence

from gpu_profile.analysis.findings.finding import Finding
from tests.generator.parallel import ParallelProgram
from tests.generator.program import Plant, Program

Cause = tuple[str, str]  # a finding's kind and cause
HABIT = 0.4  # in a window, that part of the steps may be half of them
NAMES: dict[str, set[Cause]] = {
    "slow_kernels": {("straggler", "compute")},
    "more_kernels": {("straggler", "compute")},
    "slow_host": {("straggler", "host"), ("straggler", "data")},
    "slow_copy": {("straggler", "copy")},
    "loader": {("idle", "data"), ("idle", "host")},
    "blocking": {("synchronization", "sync")},
    "pageable": {("pageable_copy", "pageable")},
    "launch": {("host_bound", "launch")},
    "exposed": {("exposed_communication", "transfer")},
    "every_nth": {("idle", "data"), ("idle", "host")},
    "uneven_stage": {("pipeline", "stage")},
    "uneven_experts": {("experts", "compute")},
    "slow_gpu": {("straggler", "compute")},
}
"""What names a plant: one of these on its ranks."""
ALSO: dict[str, set[Cause]] = {
    # The late rank's own GPU is idle for the reason that makes it late.
    "slow_host": {("idle", "data"), ("idle", "host"), ("host_bound", "launch")},
    "slow_copy": {("low_bandwidth", "copy"), ("exposed_copy", "pinned")},
    # The host works between a call that blocks and its next launch: both are true.
    "blocking": {("idle", "host"), ("host_bound", "launch")},
    # Short silences of the host count as slow launches.
    "loader": {("host_bound", "launch")},
    "every_nth": {("host_bound", "launch")},
    # With less than 1.05 times the mean of tokens the experts are even, and yet it computes longer.
    "uneven_experts": {("straggler", "compute")},
}
"""What is true beside it."""
# Where the GPUs wait for their hosts, more kernels on one rank make its host late, too.
TOGETHER: dict[tuple[str, ...], set[Cause]] = {
    ("more_kernels", second): {("straggler", "host")}
    for second in ("launch", "loader", "blocking", "pageable")
}
"""What is true of two plants together, on the first one's ranks."""
# Among launches of more kernels, which are quick, each slow one is as long as 20 of them: a pause.
TOGETHER["more_kernels", "launch"].add(("idle", "host"))
SAVING: set[Cause] = {("straggler", "copy"), ("straggler", "host")}
"""What is true of rank 0 where it saves the weights: the others wait for its copies."""


def is_true(finding: Finding, program: Program | ParallelProgram) -> bool:
    cause = finding.kind, finding.cause
    if cause == ("synchronization", "sync") and program.read_share >= HABIT:
        return True
    if cause == ("capture", "no_gpu_work") and program.window is not None:
        return True  # a host can be so far ahead that all its calls lie before the window
    if cause in SAVING and program.saves and finding.ranks == (0,):
        return True
    together = TOGETHER.get(tuple(plant.name for plant in program.plants), set())
    return any(
        cause in NAMES[plant.name] | ALSO.get(plant.name, set()) | together
        and set(finding.ranks) <= set(plant.ranks)
        for plant in program.plants
    )


def names_plant(
    findings: Sequence[Finding], plant: Plant, program: Program | ParallelProgram
) -> bool:
    """Whether a finding names the plant on its ranks.

    Beside a late rank, what all ranks have shows on the others alone, or on the late one alone.
    Rank 0 is late where it saves the weights.
    """
    several = len(program.plants) > 1 or program.saves
    return any(
        (finding.kind, finding.cause) in NAMES[plant.name]
        and (finding.ranks == plant.ranks or (several and set(finding.ranks) <= set(plant.ranks)))
        for finding in findings
    )
