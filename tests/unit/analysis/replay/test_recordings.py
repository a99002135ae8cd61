"""The replay of recorded programs: which dependencies it reads, and how well it holds."""

import pickle
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest

from gpu_profile.analysis.activity.cached import activities_of
from gpu_profile.analysis.our_tables.critical_path import CRITICAL_PATH
from gpu_profile.analysis.replay.rank.build_graph import build_rank_graph
from gpu_profile.analysis.replay.rank.rank_graph import NoGraph, RankGraph
from gpu_profile.analysis.replay.run_replay import Replay
from gpu_profile.analysis.replay.simulate import simulate
from gpu_profile.analysis.replay.weights import Weights
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope
from tests.reading import replay_reports

DATA = Path(__file__).parents[3] / "data"


@contextmanager
def open_program(name: str) -> Iterator[list[Database]]:
    with ExitStack() as stack:
        paths = sorted((DATA / name).glob("rank*.sqlite.gz"))
        yield [stack.enter_context(Database.open(path)) for path in paths]


def prepare(name: str) -> Replay | str:
    with open_program(name) as databases:
        return replay_reports(*databases)


@pytest.mark.recorded
@pytest.mark.parametrize(
    "name", ["h200x4-ddp", "unprepared/straggler_compute", "unprepared/single_eval", "h200-loader"]
)
def test_the_replay_of_a_recording_holds(name: str) -> None:
    """nsys 2025.3.2, CUDA 13: DDP on four ranks, a late rank, one GPU, a report without events."""
    replay = prepare(name)
    assert isinstance(replay, Replay), replay
    assert abs(replay.test.error) < 0.012
    time = simulate(replay.graph, Weights.of(replay.graph))
    # the speed of a kernel beside communication is a float, so its end is off by up to 1 ns
    assert np.abs(time - replay.graph.time).max() <= 20


@pytest.mark.recorded
def test_events_and_waits_join_and_nothing_contradicts_them() -> None:
    """FSDP2 on four streams: each all-gather is ordered by events."""
    with open_program("unprepared/fsdp2_compile") as (database,):
        (activity,) = activities_of(database, Scope())
        graph = build_rank_graph(activity, database, 0)
    assert isinstance(graph, RankGraph)
    assert (graph.contradictions, len(graph.streams)) == (0, 4)
    ops, links = graph.ops, graph.links
    assert len(links.events) > 50 * graph.count
    source, target = links.events.T
    assert np.all(ops.end[source] <= ops.start[target])
    assert np.all(ops.stream[source] != ops.stream[target])
    assert len(pickle.dumps(graph)) < 3_000_000


@pytest.mark.recorded
def test_without_recorded_events_of_several_streams_nothing_is_predicted() -> None:
    with open_program("unprepared/fsdp2_compile") as (database,):
        (activity,) = activities_of(database, Scope())
        graph = build_rank_graph(activity, _WithoutEvents(database), 0)
    assert isinstance(graph, NoGraph)
    assert graph.why == "the report holds no recorded events of its streams"


class _WithoutEvents(Database):
    """The report as an nsys without event tracing writes it."""

    def __init__(self, database: Database) -> None:
        super().__init__(database._store)

    def has(self, table: str, *columns: str) -> bool:
        return "CUDA_EVENT" not in table and super().has(table, *columns)


@pytest.mark.recorded
def test_the_reason_for_no_replay_is_one_line() -> None:
    assert prepare("annotated/gemm") == "no steps were found"
    assert prepare("unprepared/windows") == "rank 0: its recording is of several windows"
    jax = "rank 0: its process drives several GPUs"
    assert prepare("unprepared/jax_data_parallel") == jax


@pytest.mark.recorded
def test_the_critical_path_is_the_step() -> None:
    """30 ms of a loader on rank 0 hold up both ranks; on rank 1 nothing is critical."""
    with open_program("unprepared/straggler_loader") as databases:
        table = CRITICAL_PATH.table(databases[0])
    assert sum(float(str(ms)) for ms in table.column("Per Step")) == pytest.approx(44.4, abs=0.1)
    first = dict(zip([column.name for column in table.columns], table.rows[0], strict=True))
    assert (first["Rank"], first["What"]) == (0, "host pause")
    with open_program("annotated/gemm") as databases:
        assert CRITICAL_PATH.table(*databases).hint == "no replay: no steps were found"
