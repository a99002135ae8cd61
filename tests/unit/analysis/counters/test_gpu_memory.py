"""Curves of reserved GPU memory from nsys' events of allocations and frees."""

from pathlib import Path

from gpu_profile.analysis.counters.gpu_memory import Reserved, load_reserved, on_device
from gpu_profile.analysis.store.database import Database
from tests.unit.analysis.synthetic import Recording

PROCESS, OTHER = (1 << 48) | (100 << 24), (1 << 48) | (101 << 24)
PINNED, DEVICE, MANAGED = 1, 2, 4
ALLOCATED, FREED = 0, 1


def recorded(*events: tuple[int, int, int, int], process: int = PROCESS) -> Recording:
    """Events of one process on GPU 0: (time, bytes, kind, allocated or freed)."""
    recording = Recording()
    add(recording, *events, process=process)
    return recording


def add(recording: Recording, *events: tuple[int, int, int, int], process: int) -> None:
    for time, size, kind, what in events:
        row = (time, process, 0, size, kind, what)
        recording.add("CUDA_GPU_MEMORY_USAGE_EVENTS", *row)


def curves(recording: Recording, folder: Path) -> list[Reserved]:
    with Database.open(recording.save(folder / "run.sqlite")) as database:
        return load_reserved(database)


def test_a_curve_rises_and_falls_in_the_order_of_time(tmp_path: Path) -> None:
    events = (30, 5, DEVICE, FREED), (10, 7, DEVICE, ALLOCATED), (20, 5, DEVICE, ALLOCATED)
    (curve,) = curves(recorded(*events), tmp_path)
    assert (curve.process, curve.device, curve.kind) == (PROCESS, 0, "Device")
    assert (curve.time.tolist(), curve.bytes.tolist()) == ([10, 20, 30], [7, 12, 7])
    assert (curve.allocations, curve.frees) == (2, 1)


def test_memory_of_before_the_recording_raises_the_curve(tmp_path: Path) -> None:
    """9 bytes are freed that nobody saw allocated, so they were there from the start."""
    events = (10, 4, DEVICE, ALLOCATED), (20, 9, DEVICE, FREED), (30, 4, DEVICE, FREED)
    (curve,) = curves(recorded(*events), tmp_path)
    assert curve.bytes.tolist() == [13, 4, 0]


def test_processes_and_kinds_have_curves_of_their_own(tmp_path: Path) -> None:
    recording = recorded((10, 4, DEVICE, ALLOCATED), (20, 1, PINNED, ALLOCATED))
    add(recording, (15, 8, DEVICE, ALLOCATED), process=OTHER)
    columns = [
        (curve.process, curve.kind, curve.bytes.tolist()) for curve in curves(recording, tmp_path)
    ]
    assert columns == [(PROCESS, "Pinned", [1]), (PROCESS, "Device", [4]), (OTHER, "Device", [8])]


def test_what_lies_on_a_device_is_one_curve_without_the_host_s_memory(tmp_path: Path) -> None:
    events = (10, 4, DEVICE, ALLOCATED), (20, 1, PINNED, ALLOCATED), (30, 2, MANAGED, ALLOCATED)
    recording = recorded(*events, (40, 4, DEVICE, FREED))
    with Database.open(recording.save(tmp_path / "run.sqlite")) as database:
        time, size = on_device(database, PROCESS, 0)
        assert (time.tolist(), size.tolist()) == ([10, 30, 40], [4, 6, 2])
        for process, device in ((OTHER, 0), (PROCESS, 1)):
            assert [len(column) for column in on_device(database, process, device)] == [0, 0]


def test_a_recording_without_memory_has_no_curve(tmp_path: Path) -> None:
    assert curves(Recording(), tmp_path) == []
