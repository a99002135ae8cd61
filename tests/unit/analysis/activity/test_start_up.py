"""Start-up: its length, its parts, and that no figure of the steady state counts it."""

from pathlib import Path

import pytest

from gpu_profile.analysis.activity.load.activities import load_activities
from gpu_profile.analysis.activity.start_up import find_start_up, steady_window
from gpu_profile.analysis.activity.states import rank_states
from gpu_profile.analysis.findings.overview import StartUpFacts
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope
from tests.reading import diagnose_reports
from tests.unit.analysis.scenarios import Training
from tests.unit.analysis.synthetic import Rank

S = 1_000_000_000


def start(rank: Rank) -> None:
    rank.work(3_000_000)
    rank.call("cuDevicePrimaryCtxRetain", 500_000)
    rank.call("cuLibraryLoadData", 2_000_000)
    rank.work(1_000_000)


def test_parts_and_length_and_that_figures_leave_it_out(tmp_path: Path) -> None:
    path = Training(before=start).save(tmp_path)
    with Database.open(path) as database:
        for activity in load_activities(database, Scope()):
            start_up = find_start_up(activity)
            assert start_up is not None
            assert start_up.length == pytest.approx(6.5 * S, rel=0.01)
            assert start_up.parts["loading CUDA libraries"] == 2 * S
            assert start_up.parts["contexts"] == S // 2
            assert start_up.parts["before the first CUDA call (imports)"] == pytest.approx(
                3 * S, rel=0.01
            )
            assert start_up.first_steps == 1
            assert steady_window(activity)[0] >= start_up.end
            assert rank_states(activity, 0).span < 0.2 * S


def test_the_first_step_may_load_the_libraries(tmp_path: Path) -> None:
    """A plain loop copies its model and reads its first batch before any kernel."""
    loaded: set[int] = set()

    def copies_model(rank: Rank) -> None:
        rank.work(3_000_000)
        rank.call("cuModuleGetLoadingMode", 1)
        rank.copy(40, pageable=True)
        rank.work(2_000_000)

    def loads_once(rank: Rank) -> None:
        if rank.rank not in loaded:
            rank.call("cuLibraryLoadData", 300_000)
        loaded.add(rank.rank)

    path = Training(step_range="train_step", before=copies_model, data=loads_once).save(tmp_path)
    with Database.open(path) as database:
        (activity, *_) = load_activities(database, Scope())
        start_up = find_start_up(activity)
        assert steady_window(activity)[0] > 5 * S
    assert start_up is not None
    assert start_up.length == pytest.approx(5.3 * S, rel=0.01)


def compiles(rank: Rank) -> None:
    """XLA compiles for 1.5 s, and loads a library meanwhile for half a second."""
    start(rank)
    begin = rank.now
    rank.work(1_000_000)
    rank.call("cuLibraryLoadData", 500_000)
    rank.range("XlaCompile:#module=jit_step#", begin)
    began = rank.now
    rank.work(700_000)
    rank.range("XlaModule:#hlo_module=jit_step,program_id=9#", began)


def test_the_compilation_by_xla_is_a_part(tmp_path: Path) -> None:
    with Database.open(Training(ranks=1, before=compiles).save(tmp_path)) as database:
        (activity,) = load_activities(database, Scope())
        start_up = find_start_up(activity)
    assert start_up is not None
    assert start_up.parts["compiling"] == S
    assert start_up.parts["loading CUDA libraries"] == 2.5 * S


FRAMES = {
    "compiles": ("compile_inner", "/usr/lib/python3/dist-packages/torch/_dynamo/convert_frame.py"),
    "imports": ("<module>", "/usr/lib/python3/dist-packages/torch/_dynamo/convert_frame.py"),
    "reads": ("read", "/job/reader.py"),
    "runs": ("_fn", "/usr/lib/python3/dist-packages/torch/_dynamo/eval_frame.py"),
}


@pytest.mark.parametrize(
    ("state", "seconds"), [("compiles", 2.0), ("runs", None), ("imports", None), ("reads", None)]
)
def test_python_samples_tell_compilation_from_imports_and_calls_of_what_was_compiled(
    state: str, seconds: float | None, tmp_path: Path
) -> None:
    def works(rank: Rank) -> None:
        start(rank)
        begin = rank.now
        rank.work(2_000_000)
        rank.sample(begin, (*FRAMES[state], 9), ("main", "/job/train.py", 3), every_us=50_000)
        rank.sample(rank.now - 1, ("main", "/job/train.py", 3), every_us=50_000)

    with Database.open(Training(ranks=1, before=works).save(tmp_path)) as database:
        start_up = diagnose_reports(database).overview.start_up
    assert start_up is not None
    assert start_up.parts.get("compiling") == (seconds and pytest.approx(seconds, rel=0.05))


def test_the_first_launches_of_kernels_of_torch_compile_are_counted(tmp_path: Path) -> None:
    def layer(rank: Rank) -> None:
        rank.kernel(20, "triton_poi_fused_gelu_0")
        rank.kernel(20, "triton_red_fused_sum_1")

    with Database.open(Training(ranks=1, before=start, layer=layer).save(tmp_path)) as database:
        start_up = diagnose_reports(database).overview.start_up
    assert start_up is not None
    assert start_up.compiled == 2
    text = StartUpFacts(0, 9.0, {"the first steps": 8.0}, first_steps=1, compiled=2).to_text()
    assert text.endswith("8.0 s the first step (the first launches of 2 kernels of torch.compile)")


def test_a_window_in_which_a_thread_sets_its_device_has_none(tmp_path: Path) -> None:
    def looks_up(rank: Rank) -> None:
        rank.work(20_000)
        rank.call("cudaSetDevice_v3020", 2)
        rank.call("cuLibraryGetKernel", 10)

    with Database.open(Training(before=looks_up).save(tmp_path)) as database:
        assert diagnose_reports(database).overview.start_up is None


def test_a_recording_that_began_later_has_none(tmp_path: Path) -> None:
    with Database.open(Training().save(tmp_path)) as database:
        assert all(
            find_start_up(activity) is None for activity in load_activities(database, Scope())
        )
