"""The reports of synthetic ranks: their names, hosts and starts."""

from collections.abc import Sequence

from tests.unit.analysis.synthetic import US, Rank, Recording

EPOCH_NS = 1_790_000_000_000_000_000


def name_reports(
    ranks: Sequence[Rank], hosts: int = 1, clock_error_us: float = 0.0
) -> dict[str, Recording]:
    """The recordings by file name, each with its host and its session's start."""
    reports = dict[str, Recording]()
    for rank in ranks:
        recording = rank.recording
        if any(recording is other for other in reports.values()):
            continue
        host = rank.rank * hosts // len(ranks)
        recording.origin = 1_000_003 * rank.rank
        error = round(clock_error_us * US) if host else 0
        recording.add("TARGET_INFO_SESSION_START_TIME", EPOCH_NS + recording.origin + error)
        recording.add("TARGET_INFO_SYSTEM_ENV", "Hostname", f"host{host}")
        reports[f"rank{rank.rank}.host{host}.sqlite"] = recording
    return reports
