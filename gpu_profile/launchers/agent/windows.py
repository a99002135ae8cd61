"""Ask the agents beside a job's ranks for a window, through record_window.py."""

from collections.abc import Callable, Mapping
from typing import Any

from gpu_profile.command import Command, Steps
from gpu_profile.errors import ToolError
from gpu_profile.launchers.agent.job_directory import parse_facts
from gpu_profile.nsys.recorder import RankWindow, Window, WindowRequest

SCRIPT = "record_window.py"


def record_window(
    call: Callable[..., Command], directory: str, request: WindowRequest
) -> Steps[Window]:
    """Have one machine's agents record. `call(*words)` runs record_window.py there."""
    ranks = ",".join(map(str, sorted(request.ranks))) or "all"
    words = ("request", directory, f"--seconds={request.seconds:g}", f"--ranks={ranks}")
    asked = parse_facts((yield call(*words)), "asking for a window")
    awaited = call("await", directory, str(asked["window"]))
    return read_window(parse_facts((yield awaited), "waiting for the window"))


def read_window(facts: Mapping[str, Any]) -> Window:
    """Return the window of record_window.py's answer. Raises ToolError for another one."""
    try:
        answers: Mapping[str, Mapping[str, Any]] = facts["answers"]
        ranks = tuple(_read_rank(name, answers[name]) for name in sorted(answers))
        began = {
            name: float(answers[name]["began"]) for name in answers if "began" in answers[name]
        }
        return Window(number=int(facts["window"]), ranks=ranks, began=began)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        what = f"the answer on the window is damaged: {type(error).__name__}"
        raise ToolError(what, "Look into `windows` of the job's run directory") from error


def _read_rank(name: str, answer: Mapping[str, Any]) -> RankWindow:
    done = answer["state"] == "done"
    return RankWindow(
        name=name,
        report=str(answer["report"]) if done else "",
        why="" if done else str(answer.get("why", "unknown")),
        note=str(answer.get("note", "")),
    )
