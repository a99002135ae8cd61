"""GPU hardware metrics as nsys samples them: by GPU and name, in percent or MHz."""

import re
from pathlib import Path

import numpy as np
import pytest

from gpu_profile.analysis.counters import gpu_metrics
from gpu_profile.analysis.counters.gpu_metrics import Metric, load_metrics, metric_of
from gpu_profile.analysis.store.database import Database
from tests.unit.analysis.synthetic import Recording

GPU_0, GPU_3 = 1 << 48, (1 << 48) | 3


def recorded(names: dict[int, str], *samples: tuple[int, int, int, int]) -> Recording:
    """Samples: (time, GPU, number of the metric, value)."""
    recording = Recording()
    for number, name in names.items():
        recording.add("TARGET_INFO_GPU_METRICS", GPU_0, number, name)
    for row in samples:
        recording.add("GPU_METRICS", *row)
    return recording


def metrics(recording: Recording, folder: Path) -> tuple[Metric, ...]:
    with Database.open(recording.save(folder / "run.sqlite")) as database:
        return load_metrics(database)


def test_each_gpu_has_its_samples_in_the_order_of_time(tmp_path: Path) -> None:
    names = {5: "SMs Active [Throughput %]"}
    samples = (20, GPU_3, 5, 70), (10, GPU_0, 5, 30), (10, GPU_3, 5, 60), (20, GPU_0, 5, 40)
    samples_of_gpus = metrics(recorded(names, *samples), tmp_path)
    assert [(metric.gpu, metric.name, metric.unit) for metric in samples_of_gpus] == [
        *((0, "SMs Active", "%"), (3, "SMs Active", "%")),
    ]
    assert [metric.time.tolist() for metric in samples_of_gpus] == [[10, 20], [10, 20]]
    assert [metric.value.tolist() for metric in samples_of_gpus] == [[30, 40], [60, 70]]


def test_clocks_are_in_mhz_and_other_units_are_left_out(tmp_path: Path) -> None:
    names = {1: "GPC Clock Frequency [MHz]", 2: "PCIe RX Throughput [Bytes]", 3: "Unnamed"}
    samples = (10, GPU_0, 1, 1_980_000_000), (10, GPU_0, 2, 7), (10, GPU_0, 3, 8)
    (clock,) = metrics(recorded(names, *samples), tmp_path)
    assert (clock.name, clock.unit, clock.value.tolist()) == ("GPC Clock Frequency", "MHz", [1980])


@pytest.mark.parametrize("names", [{}, {5: "SMs Active [Throughput %]"}])
def test_nothing_was_sampled(names: dict[int, str], tmp_path: Path) -> None:
    assert metrics(recorded(names), tmp_path) == ()


def test_between_takes_the_start_and_leaves_the_end() -> None:
    metric = Metric(0, "SMs Active", "%", np.array([10, 20, 30]), np.array([1, 2, 3]))
    part = metric.between(10, 30)
    assert (part.time.tolist(), part.value.tolist()) == ([10, 20], [1, 2])
    assert len(metric.between(31, 99).time) == 0


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        (gpu_metrics.SM_ACTIVE, ("SMs Active", "SM Active")),
        (gpu_metrics.TENSOR, ("Tensor Active", "Tensor Pipe Active")),
        (gpu_metrics.OCCUPANCY, ("Compute Warps in Flight", "Compute Warps In Flight")),
        (gpu_metrics.DRAM_READ, ("DRAM Read Bandwidth",)),
        (gpu_metrics.DRAM_WRITE, ("DRAM Write Bandwidth",)),
    ],
    ids=["sm", "tensor", "occupancy", "read", "write"],
)
def test_metrics_are_found_by_the_names_of_all_chips(
    pattern: re.Pattern[str], names: tuple[str, ...]
) -> None:
    none = np.empty(0, np.int64)
    for name in names:
        other, chosen = Metric(0, "GPC Clock", "MHz", none, none), Metric(1, name, "%", none, none)
        assert metric_of((other, chosen), 1, pattern) is chosen
        assert metric_of((other, chosen), 0, pattern) is None
