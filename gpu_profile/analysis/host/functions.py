"""Which function a sampled stack is told by: the user's own, also in a task of an event loop."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from gpu_profile.analysis.host.frames import Frame, Stack


class EventLoop(NamedTuple):
    """A function that runs tasks: the end of its file's path, its name, and what it is called.

    `task` is the end of the path of the file that stands between the loop and a task.
    """

    file: str
    function: str
    words: str
    task: str


_LOOPS = (
    EventLoop("asyncio/base_events.py", "_run_once", "asyncio's event loop", "asyncio/events.py"),
    EventLoop("gevent/hub.py", "run", "gevent's hub", "gevent/greenlet.py"),
    EventLoop("trio/_core/_run.py", "unrolled_run", "trio's event loop", "\0"),
)


def top_functions(stacks: Sequence[Stack]) -> list[tuple[str, int]]:
    """The innermost functions of the user's files (else of libraries), the most frequent first.

    Each name has the most frequent line and library function, e.g. "load (train.py:9), in read";
    for one of the standard library also its caller: ", called by dumps (torch.serialization.py:9)".
    In an event loop it also has the task: "parse (serve.py:12), task handle".
    """
    counts: Counter[tuple[str, str]] = Counter()
    labels: dict[tuple[str, str], Counter[str]] = {}
    for stack in stacks:
        key, label = _name_stack(stack)
        counts[key] += 1
        labels.setdefault(key, Counter())[label] += 1
    ordered = sorted(counts, key=lambda key: (-counts[key], key))
    return [(labels[key].most_common(1)[0][0], counts[key]) for key in ordered]


def _name_stack(stack: Stack) -> tuple[tuple[str, str], str]:
    """((function, file), label) of the function that a stack is counted for."""
    loop, inside = _find_task(stack)
    if loop is not None and not inside:
        return (loop.words, ""), f"{loop.words}, which has no task to run"
    stack = inside or stack
    by_user = [frame for frame in stack if frame.of_user]
    frame = by_user[-1] if by_user else stack[-1]
    label = str(frame) if frame == stack[-1] else f"{frame}, in {stack[-1]}"
    caller = _find_caller(stack)
    if caller is not None and caller != frame:
        label += f", called by {caller.to_text_with_package()}"
    task = by_user[0] if by_user and loop is not None else frame
    if task.function != frame.function:
        label += f", task {task.function}"
    return (frame.function, frame.file), label


def _find_caller(stack: Stack) -> Frame | None:
    """What called Python's standard library, if a stack ends there: `linecache`, `copy`, `pickle`
    work for others.
    """
    if not stack[-1].of_python:
        return None
    return next((frame for frame in reversed(stack) if not frame.of_python), None)


def _find_task(stack: Stack) -> tuple[EventLoop | None, Stack]:
    """The innermost event loop of a stack and the frames of its task, () while it waits."""
    for place in range(len(stack) - 1, -1, -1):
        loop = _find_loop(stack[place])
        if loop is not None:
            inside = stack[place + 1 :]
            runs = any(frame.of_user or frame.file.endswith(loop.task) for frame in inside)
            return loop, inside if runs else ()
    return None, ()


def _find_loop(frame: Frame) -> EventLoop | None:
    return next(
        (
            loop
            for loop in _LOOPS
            if frame.function == loop.function and frame.file.endswith(loop.file)
        ),
        None,
    )
