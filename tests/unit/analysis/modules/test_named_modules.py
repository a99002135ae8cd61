"""Findings, tables and the gate in the words of the model: its modules."""

from pathlib import Path

import pytest

from gpu_profile.analysis.compare.compare import compare_samples
from gpu_profile.analysis.compare.samples import Metric, RankSamples, sample_report
from gpu_profile.analysis.store.database import Database
from gpu_profile.analysis.tables.analysis import Scope
from gpu_profile.analysis.tables.by_name import OURS
from gpu_profile.errors import ReportError
from tests.reading import diagnose_reports
from tests.unit.analysis.synthetic import Rank, all_reduce, ranks_of

LAYERS, STEPS = 4, 8


def layer(rank: Rank, name: str, host_us: float, kernel_us: float, kernels: int = 10) -> None:
    start = rank.now
    for _ in range(kernels):
        rank.work(host_us)
        rank.kernel(kernel_us)
    rank.mark(f"forward {name}|{name.title()}|model.py:3", start)


def train(path: Path, attention_host_us: float = 4, attention_us: float = 30) -> Path:
    """Two modules a layer, of which the host may be slow in one."""
    (rank,) = ranks_of(1)
    for step in range(STEPS):
        begin = rank.now
        rank.work(1)
        for number in range(LAYERS):
            layer(rank, f"h.{number}.attn", attention_host_us, attention_us)
            layer(rank, f"h.{number}.mlp", 4, 30)
        rank.mark("step", begin, step)
    return rank.recording.save(path)


def test_a_finding_names_the_module_of_all_layers(tmp_path: Path) -> None:
    with Database.open(train(tmp_path / "slow.sqlite", attention_host_us=60)) as database:
        (finding,) = diagnose_reports(database).findings
        gaps = OURS["idle_gaps"].table(database)
        modules = OURS["module_sum"].table(database)
    assert (finding.kind, finding.cause) == ("host_bound", "launch")
    (line,) = [line for line in finding.evidence if "h.*.attn" in line]
    assert line == "rank 0: 100 % of it in h.*.attn"
    assert gaps.column("Range")[0] == "h.*.attn"
    idle = dict(zip(modules.column("Module"), modules.column("Idle"), strict=True))
    assert int(idle["h.0.attn"] or 0) > 10 * int(idle["h.0.mlp"] or 0)


def of_module(path: Path, name: str) -> list[list[RankSamples]]:
    with Database.open(path) as database:
        return [sample_report(database, Scope(), Metric.parse(f"module:{name}"))]


@pytest.mark.parametrize(
    ("name", "verdict"),
    [
        ("h.*.attn", "regression"),
        ("h.2.attn", "regression"),
        ("h.2", "regression"),
        ("h.*.mlp", "pass"),
    ],
)
def test_the_gate_by_module(name: str, verdict: str, tmp_path: Path) -> None:
    base = train(tmp_path / "base.sqlite")
    new = train(tmp_path / "new.sqlite", attention_us=60)
    sides = of_module(base, name), of_module(new, name)
    result = compare_samples(*sides, Metric.parse(f"module:{name}"), 0.05)
    assert result.verdict == verdict
    modules = 2 if name == "h.2" else 1
    layers = LAYERS if "*" in name else 1
    assert result.base.median == modules * layers * 10 * 30_000


def test_a_module_that_is_not_there(tmp_path: Path) -> None:
    base = train(tmp_path / "base.sqlite")
    metric = Metric.parse("module:h.9")
    with pytest.raises(ReportError, match=r"no module:h\.9"):
        compare_samples(of_module(base, "h.9"), of_module(base, "h.9"), metric, 0.05)


@pytest.mark.parametrize(("phase", "owner"), [("forward", "h.0.mlp"), ("backward", "(all_reduce)")])
def test_gradients_are_synchronised_by_no_module(phase: str, owner: str, tmp_path: Path) -> None:
    """A bucket of DDP is reduced while any module's backward runs."""
    ranks = ranks_of(2)
    starts = [rank.now for rank in ranks]
    all_reduce(ranks, 20)
    for rank, start in zip(ranks, starts, strict=True):
        rank.mark(f"{phase} h.0.mlp|MLP|model.py:3", start)
    with Database.open(ranks[0].recording.save(tmp_path / "run.sqlite")) as database:
        table = OURS["module_sum"].table(database)
    times = dict(zip(table.column("Module"), table.column("Communication"), strict=True))
    assert {name: time is not None for name, time in times.items()} == {owner: True}


AUTOGRAD = 7


def collectives(path: Path) -> dict[str, int]:
    """ns of communication by module."""
    with Database.open(path) as database:
        table = OURS["module_sum"].table(database)
    times = zip(table.column("Module"), table.column("Communication"), strict=True)
    return {str(name): int(time) for name, time in times if time}


def backward_of(ranks: list[Rank], layers: str, reduced_in: dict[str, str]) -> None:
    """A backward pass over modules ("b1 a1 …"), each of which accumulates its gradient.

    `reduced_in`: the phase, by module, in whose range a collective is launched.
    """
    starts = [rank.now for rank in ranks]
    for rank in ranks:
        rank.lane = AUTOGRAD
    for name in layers.split():
        text = f"{name}|Linear|m.py:1"
        begins = [rank.now for rank in ranks]
        for rank in ranks:
            rank.work(1)
            rank.kernel(10)
        inner = [rank.now for rank in ranks]
        for rank in ranks:
            rank.work(1)
        if reduced_in.get(name) == "accumulate":
            all_reduce(ranks, 20)
        for rank, start in zip(ranks, inner, strict=True):
            rank.mark(f"accumulate {text}", start)
        if reduced_in.get(name) == "backward":
            all_reduce(ranks, 20)
        for rank, start in zip(ranks, begins, strict=True):
            rank.mark(f"backward {text}", start)
    for rank, start in zip(ranks, starts, strict=True):
        rank.lane = 0
        rank.mark("backward", start)


@pytest.mark.parametrize(
    ("layers", "reduced_in", "owners"),
    [
        # DDP: a bucket of one module, one of two modules in h.1, one of two layers.
        ("h.2.up", {"h.2.up": "accumulate"}, {"h.2.up"}),
        ("h.1.up h.1.down", {"h.1.down": "accumulate"}, {"h.1"}),
        ("h.2.up h.1.down", {"h.1.down": "accumulate"}, {"h"}),
        ("head h.1.down", {"h.1.down": "accumulate"}, {"(all_reduce)"}),
        ("head h.1.up", {"head": "accumulate", "h.1.up": "accumulate"}, {"head", "h.1.up"}),
        # FSDP2: h.1 reduces its own; the last one of a pass takes the head's as well.
        ("head h.1 h.0", {"h.1": "backward", "h.0": "backward"}, {"h.1", "(all_reduce)"}),
        ("h.1 h.0", {"h.1": "backward", "h.0": "backward"}, {"h.1", "h.0"}),
    ],
)
def test_a_collective_belongs_to_the_module_whose_gradients_it_reduces(
    layers: str, reduced_in: dict[str, str], owners: set[str], tmp_path: Path
) -> None:
    ranks = ranks_of(2)
    for _ in range(2):
        backward_of(ranks, layers, reduced_in)
    assert set(collectives(ranks[0].recording.save(tmp_path / "run.sqlite"))) == owners


def test_a_reduction_before_any_gradient_has_no_owner(tmp_path: Path) -> None:
    """Tensor parallelism reduces an activation's gradient in a module's backward."""
    ranks = ranks_of(2)
    starts = [rank.now for rank in ranks]
    all_reduce(ranks, 20)
    for rank, start in zip(ranks, starts, strict=True):
        rank.mark("backward h.0|Linear|m.py:1", start)
        rank.mark("backward", start)
    backward_of(ranks, "h.0", {})
    path = ranks[0].recording.save(tmp_path / "run.sqlite")
    assert set(collectives(path)) == {"(all_reduce)"}


def test_exposed_communication_names_its_modules(tmp_path: Path) -> None:
    ranks = ranks_of(2)
    for step in range(STEPS):
        begins = [rank.now for rank in ranks]
        for rank in ranks:
            rank.work(1)
            layer(rank, "h.0.mlp", 4, 30)
        backward_of(ranks, "h.1.up h.0.up", {"h.1.up": "accumulate", "h.0.up": "accumulate"})
        for rank, begin in zip(ranks, begins, strict=True):
            rank.work(1)
            rank.mark("step", begin, step)
    with Database.open(ranks[0].recording.save(tmp_path / "run.sqlite")) as database:
        findings = diagnose_reports(database).findings
    (exposed,) = [finding for finding in findings if finding.kind == "exposed_communication"]
    assert "rank 0: 100 % of it is of h.*.up" in exposed.evidence


def test_a_straggler_s_module_is_named(tmp_path: Path) -> None:
    """Rank 1 computes longer, in one of two modules of each layer."""
    ranks = ranks_of(4)
    for step in range(STEPS):
        begins = [rank.now for rank in ranks]
        for rank in ranks:
            rank.work(1)
            for number in range(LAYERS):
                layer(rank, f"h.{number}.attn", 4, 30)
                layer(rank, f"h.{number}.mlp", 4, 60 if rank.rank == 1 else 30)
        all_reduce(ranks, 50)
        for rank, begin in zip(ranks, begins, strict=True):
            rank.work(1)
            rank.mark("step", begin, step)
    with Database.open(ranks[0].recording.save(tmp_path / "run.sqlite")) as database:
        (finding,) = diagnose_reports(database).findings
    assert (finding.kind, finding.cause, finding.ranks) == ("straggler", "compute", (1,))
    (line,) = [line for line in finding.evidence if "most of the difference" in line]
    assert line.endswith("most of the difference is in h.*.mlp, +1.20 ms a step")


def test_the_module_with_most_tiny_kernels_is_named(tmp_path: Path) -> None:
    (rank,) = ranks_of(1)
    for step in range(STEPS):
        begin = rank.now
        rank.work(1)
        for number in range(LAYERS):
            layer(rank, f"h.{number}.norm", 20, 2, kernels=200)
            layer(rank, f"h.{number}.mlp", 4, 30, kernels=20)
        rank.mark("step", begin, step)
    with Database.open(rank.recording.save(tmp_path / "run.sqlite")) as database:
        findings = diagnose_reports(database).findings
    (tiny,) = [finding for finding in findings if finding.kind == "tiny_kernels"]
    assert "rank 0: 100 % of them in h.*.norm" in tiny.evidence
    assert tiny.other_fix is not None
    fix, gain = tiny.other_fix
    assert tiny.as_json()["other_fix"] == {"fix": fix, "ms_per_step": round(gain, 3)}
    assert not fix.endswith(",")
    assert f"another fix gains {gain:.2f} ms a step: {fix}" in tiny.evidence


@pytest.mark.parametrize(("in_row", "is_found"), [(9, True), (4, False)])
def test_few_tiny_kernels_are_told_where_they_are_launched_in_rows(
    in_row: int, is_found: bool, tmp_path: Path
) -> None:
    """Each kernel of 30 us follows nine of 2 us, or four: 360 or 160 tiny ones a step."""
    (rank,) = ranks_of(1)
    for step in range(STEPS):
        begin = rank.now
        for number in range(40):
            layer(rank, f"h.{number}.norm", 20, 2, kernels=in_row)
            layer(rank, f"h.{number}.mlp", 4, 30, kernels=1)
        rank.mark("step", begin, step)
    with Database.open(rank.recording.save(tmp_path / "run.sqlite")) as database:
        kinds = {finding.kind for finding in diagnose_reports(database).findings}
    assert ("tiny_kernels" in kinds) is is_found


def test_a_receive_for_a_step_that_was_not_recorded_counts_for_nobody(tmp_path: Path) -> None:
    (rank,) = ranks_of(1)
    for step in range(STEPS):
        begin = rank.now
        layer(rank, "h.0.mlp", 4, 30)
        if step == STEPS - 1:
            rank.kernel(10_000_000, "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096>)")
        rank.mark("step", begin, step)
    with Database.open(rank.recording.save(tmp_path / "run.sqlite")) as database:
        table = OURS["module_sum"].table(database)
    assert "(send_recv)" not in table.column("Module")


def test_the_module_that_asks_for_values_is_named(tmp_path: Path) -> None:
    """A router that calls .item() in each layer."""
    (rank,) = ranks_of(1)
    for step in range(STEPS):
        begin = rank.now
        rank.work(1)
        for number in range(LAYERS):
            layer(rank, f"h.{number}.mlp", 4, 60)
            start = rank.now
            rank.kernel(20)
            rank.item()
            rank.work(100)
            rank.kernel(20)
            rank.mark(f"forward h.{number}.router|Router|model.py:9", start)
        rank.mark("step", begin, step)
    with Database.open(rank.recording.save(tmp_path / "run.sqlite")) as database:
        findings = diagnose_reports(database).findings
    (sync,) = [finding for finding in findings if finding.kind == "synchronization"]
    assert "rank 0: 100 % of it in h.*.router" in sync.evidence
