"""A trace of torch.profiler in place of nsys: when it begins and ends, and which file it writes."""

import ctypes
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import window_files
from gpu_profile_marks.ending import Ending
from gpu_profile_marks.nvtx import number
from gpu_profile_marks.ranges import SWITCH
from gpu_profile_marks.step_counter import TRACE
from gpu_profile_marks.steps import Steps
from gpu_profile_marks.torch_trace import Annotations, TorchTrace
from gpu_profile_marks.window import Window


class Profiler:
    """Stands for torch.profiler.profile, and notes what is called."""

    def __init__(self, calls: list[str], activities: list[str]) -> None:
        self.calls, self.activities = calls, activities
        self.profiler = of_autograd()

    def start(self) -> None:
        self.profiler._prepare_trace()
        self.calls.append(f"start {'+'.join(self.activities)}")

    def stop(self) -> None:
        self.calls.append("stop")

    def add_metadata_json(self, name: str, text: str) -> None:
        self.calls.append(f"{name} {text}")

    def export_chrome_trace(self, path: str) -> None:
        Path(path).write_text("{}" * len(self.calls))


class of_autograd:
    def _prepare_trace(self) -> None:
        pass


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A torch whose calls are in `calls`, and marks that are on."""
    calls: list[str] = []
    monkeypatch.setattr(SWITCH, "on", True)
    monkeypatch.delenv("RANK", raising=False)

    class OfAutograd(of_autograd):
        pass

    def make(activities: list[str]) -> Profiler:
        profiler = Profiler(calls, activities)
        profiler.profiler = OfAutograd()
        return profiler

    def enter(name: str, _arguments: None) -> str:
        calls.append(name)
        return name

    return SimpleNamespace(
        calls=calls,
        autograd=SimpleNamespace(
            kineto_available=lambda: True, profiler=SimpleNamespace(profile=OfAutograd)
        ),
        cuda=SimpleNamespace(is_initialized=lambda: False, is_available=lambda: False),
        distributed=SimpleNamespace(is_available=lambda: False),
        profiler=SimpleNamespace(
            ProfilerActivity=SimpleNamespace(CPU="CPU", CUDA="CUDA"), profile=make
        ),
        ops=SimpleNamespace(
            profiler=SimpleNamespace(
                _record_function_enter_new=enter,
                _record_function_exit=SimpleNamespace(
                    _RecordFunction=lambda name: calls.append(f"end {name}")
                ),
            )
        ),
    )


def make_steps(window: Ending | Window, until: int) -> list[int]:
    """Make steps of 1 s; return those at whose beginning something was begun or ended."""
    now, turned = [0.0], []
    steps = Steps(lambda: now[0])
    for _ in range(until):
        step = steps.begin()
        turned += [step] if window.turn(step, steps) else []
        now[0] += 1.0
        steps.call(1, set)
    window.stop(steps.made())
    return turned


def test_it_ends_after_enough_steps_and_the_program_goes_on(torch: Any, tmp_path: Path) -> None:
    trace = TorchTrace(torch, str(tmp_path / "rank0.a.pt.trace.json"))
    ending = Ending(torch, str(tmp_path / "rank0.a.steps.json"), "", trace)
    assert make_steps(ending, 70) == [60]
    assert torch.calls == ["start CPU", "stop"]
    assert (ending.recorded, ending._control) == ((0, 60), 61)
    (written,) = tmp_path.glob("*.pt.trace.json")
    assert written.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("steps", "address", "recorded"), [(9, "", None), (70, "whole", None)])
def test_it_ends_with_the_program(
    torch: Any, tmp_path: Path, steps: int, address: str, recorded: None
) -> None:
    trace = TorchTrace(torch, str(tmp_path / "rank0.a.pt.trace.json"))
    ending = Ending(torch, str(tmp_path / "steps.json"), address, trace)
    assert make_steps(ending, steps) == []
    assert (torch.calls, ending.recorded) == (["start CPU", "stop"], recorded)


def test_a_window_is_recorded_with_the_rank_that_the_program_has(
    torch: Any, tmp_path: Path
) -> None:
    """torchrun starts several ranks below one profile.py."""
    torch.distributed = SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: True,
        get_rank=lambda: 3,
        get_world_size=lambda: 4,
    )
    trace = TorchTrace(torch, str(tmp_path / "rank0.10.0.0.1.pt.trace.json"))
    window = Window(torch, 4, 8, str(tmp_path / "steps.json"), trace=trace)
    assert make_steps(window, 20) == [4, 8]
    assert torch.calls == [*("start CPU", 'distributedInfo {"rank": 3, "world_size": 4}', "stop")]
    assert [path.name for path in tmp_path.glob("*.json")] == ["rank3.10.0.0.1.pt.trace.json"]


def test_of_two_processes_of_a_rank_the_longer_trace_stays(torch: Any, tmp_path: Path) -> None:
    path = tmp_path / "rank0.a.pt.trace.json"
    path.write_text("longer than the trace")
    trace = TorchTrace(torch, str(path))
    trace.start()
    trace.stop()
    assert path.read_text() == "longer than the trace"
    assert list(tmp_path.iterdir()) == [path]


def test_a_program_that_records_itself_goes_first(
    torch: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = TorchTrace(torch, str(tmp_path / "rank0.a.pt.trace.json"))
    trace.yield_to_program()
    trace.start()
    assert torch.calls == ["start CPU"]
    torch.profiler.profile(["CPU"]).start()
    assert torch.calls == ["start CPU", "stop", "start CPU"]
    assert (
        "the program starts torch.profiler itself: the trace ends here" in capsys.readouterr().err
    )
    trace.stop()
    assert torch.calls[-1] == "start CPU"
    ending = Ending(torch, str(tmp_path / "steps.json"), "", trace)
    assert make_steps(ending, 9) == [0]
    assert ending.recorded == (0, 0)


def test_windows_are_traced_from_step_to_step_while_they_are_asked_for(
    torch: Any, tmp_path: Path
) -> None:
    """The second one is that in which the program starts torch.profiler itself."""
    folder = tmp_path / window_files.FOLDER
    folder.mkdir()
    window_files.tell_marks(folder, "rank0.a", window_files.SLEEP)
    trace = TorchTrace(torch, str(tmp_path / "rank0.a.pt.trace.json"))
    trace.yield_to_program()
    ending = Ending(torch, str(tmp_path / "rank0.a.steps.json"), "manual", trace)
    turned = []
    for step, what in enumerate((0, 1, TRACE, TRACE, 0, TRACE, TRACE, 0, TRACE)):
        window_files.tell_marks(folder, "rank0.a", what)
        turned += [step] if ending.turn(step, Steps()) else []
        shown = window_files.list_doing(folder, "rank0.a", window_files.TRACES)
        assert bool(shown) == (what == TRACE)
        if step == 5:
            torch.profiler.profile(["CPU"]).start()
    assert turned == [2, 4, 5, 7, 8]
    assert torch.calls == [*("start CPU", "stop") * 2, *("start CPU",) * 2]


def test_marks_are_annotations_while_it_runs(torch: Any, tmp_path: Path) -> None:
    trace = TorchTrace(torch, str(tmp_path / "rank0.a.pt.trace.json"))
    domain = Annotations(torch, trace, {})
    step, forward = (domain.make(text) for text in ("step", "forward h.3"))
    number(step, 12)
    domain.push(ctypes.addressof(forward))
    trace.start()
    domain.push(ctypes.addressof(step))
    domain.push(ctypes.addressof(forward))
    other = threading.Thread(target=domain.pop)  # nothing is open there
    other.start()
    other.join()
    for _ in range(4):
        domain.pop()
    domain.mark(0)
    assert torch.calls[1:] == [
        *("ProfilerStep#12", "gpu-profile:forward h.3"),
        *("end gpu-profile:forward h.3", "end ProfilerStep#12"),
    ]


def test_a_torch_without_kineto_has_no_trace(torch: Any, tmp_path: Path) -> None:
    torch.autograd.kineto_available = lambda: False
    with pytest.raises(RuntimeError, match="built without Kineto"):
        TorchTrace(torch, str(tmp_path / "rank0.a.pt.trace.json")).start()
