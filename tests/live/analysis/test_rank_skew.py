"""Collectives inside replayed CUDA graphs, aligned over ranks: of a recording, and of the same one
with all-reduces that begin later by known times.
"""

import gzip
import sqlite3
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from gpu_profile.analysis.findings.diagnose import make_views
from gpu_profile.analysis.findings.diagnosed_report import collect_report_facts
from gpu_profile.analysis.findings.evidence.graph_arrivals import GraphView, list_graph_arrivals
from gpu_profile.analysis.multi_report.survey import run_of, survey_report
from gpu_profile.analysis.store.files.open_report import open_report
from gpu_profile.settings.places import ROOT

RECORDING = ROOT / "tests" / "data" / "serving" / "reduces.sqlite.gz"
SLOWER = 32
"""All times are so many times as long, so that an all-reduce of 1.1 us can begin later by 20."""
LATE_NS = {1: 20_000, 4: 9_000}
"""By the place of an all-reduce in its launch, of 6."""
TIMED = ("CUPTI_ACTIVITY_KIND_%", "NVTX_EVENTS")


def write_rank(rank: int, folder: Path, late_ns: Mapping[int, int]) -> Path:
    """The recording as a rank of two; all-reduces at these places of a launch begin later."""
    path = folder / f"rank{rank}.host0.sqlite"
    path.write_bytes(gzip.decompress(RECORDING.read_bytes()))
    with sqlite3.connect(path) as database:
        likes = " or ".join(f"name like '{name}'" for name in TIMED)
        names = database.execute(f"select name from sqlite_master where type='table' and ({likes})")
        for (table,) in names.fetchall():
            columns = [row[1] for row in database.execute(f"pragma table_info({table})")]
            for column in {"start", "end"} & {*columns}:
                database.execute(f'update {table} set "{column}" = "{column}" * {SLOWER}')
        of_reduces = (
            "from CUPTI_ACTIVITY_KIND_KERNEL join StringIds on id = shortName "
            "where value = 'cross_device_reduce_1stage' and graphNodeId is not null"
        )
        nodes = database.execute(f"select distinct graphNodeId {of_reduces} order by 1").fetchall()
        for place, ns in late_ns.items():
            update = "update CUPTI_ACTIVITY_KIND_KERNEL set start = start + ? where graphNodeId = ?"
            database.execute(update, (ns, nodes[place][0]))
    database.close()
    return path


def test_collectives_inside_graphs_are_aligned_over_1000_launches(tmp_path: Path) -> None:
    paths = [write_rank(0, tmp_path, {}), write_rank(1, tmp_path, LATE_NS)]
    with ExitStack() as stack:
        databases = [stack.enter_context(open_report(str(path))) for path in paths]
        run = run_of([survey_report(database) for database in databases])
        scopes = run.join([str(path) for path in paths])
        pairs = zip(databases, scopes, strict=True)
        facts = [rank for pair in pairs for rank in collect_report_facts(*pair).ranks]
        views: list[GraphView] = make_views(facts, 0)["rank_skew"]
    (arrivals,) = list_graph_arrivals(views)
    # 1,000 iterations without the warm-up, and without those that launch each kernel.
    assert arrivals.launches >= 970
    late = arrivals.start[1] - arrivals.start[0]
    expected = np.array([LATE_NS.get(place, 0) for place in range(6)])
    assert np.array_equal(late, expected[arrivals.ordinal])
