"""A trace of torch.profiler with the waits of streams is replayed as nsys' report is."""

from pathlib import Path

import pytest

import gpu_profile
from tests.live.analysis.kineto_trace import write_trace

DATA = Path(__file__).parents[2] / "data"


@pytest.mark.filterwarnings("ignore:note")
@pytest.mark.parametrize(
    "report", ["unprepared/ddp_item/rank0", "causes/prefetch_stream/planted"], ids=str
)
def test_the_critical_path_is_that_of_nsys(report: str, tmp_path: Path) -> None:
    packed = DATA / f"{report}.sqlite.gz"
    write_trace(packed, tmp_path / "a.pt.trace.json")
    paths = []
    for place in (packed, tmp_path / "a.pt.trace.json"):
        table = gpu_profile.open(str(place)).table("critical_path")
        names = [column.name for column in table.columns]
        kind, per_step = names.index("What"), names.index("Per Step")
        sums: dict[str, float] = {}
        for row in table.rows:
            sums[str(row[kind])] = sums.get(str(row[kind]), 0.0) + float(row[per_step] or 0)
        paths.append(sums)
    assert sum(paths[0].values()) > 10
    # The phases of NVTX ranges, which the trace lacks, cut a part of the host work off.
    assert paths[1] == pytest.approx(paths[0], rel=0.003, abs=0.1)
