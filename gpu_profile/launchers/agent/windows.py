"""Ask the agents beside a job's ranks for a window, through record_window.py."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

from gpu_profile.carrier import CARRIED_TO
from gpu_profile.command import Command, Result, Steps
from gpu_profile.errors import SettingsError, ToolError
from gpu_profile.launchers.agent.at_once import run_at_once
from gpu_profile.launchers.agent.job_directory import parse_facts
from gpu_profile.nsys.recorder import RankWindow, Window, WindowRequest

SCRIPT = "record_window.py"
_LEAD_S = 2.0
"""From the request to the window's beginning, as record_window.py has it on one machine."""
_TRIES = 4  # of a call that lost its connection while it waited
_PYTHON = f"""p={CARRIED_TO}/carrier/bin/python3
[ -x "$p" ] || p=python3
exec "$p" -E "$@"
"""
IN_CONTAINER = ("sh", "-c", _PYTHON, "sh", f"{CARRIED_TO}/agent/{SCRIPT}")
"""The words that run record_window.py in a container of ours, or of an image that nsys is carried
to, which has a Python beside it."""
Call: TypeAlias = Callable[..., Command]
"""`call("armed", "/wd/train-1")` is the command that runs record_window.py at a place."""


def record_window(call: Call, directory: str, request: WindowRequest) -> Steps[Window]:
    """Have one machine's agents record. `call(*words)` runs record_window.py there."""
    ranks = ",".join(map(str, sorted(request.ranks))) or "all"
    words = (*_choose_verb(request, directory), *_describe_length(request), f"--ranks={ranks}")
    answer = parse_facts((yield call(*words)), "asking for a window")
    if request.schedule:
        return Window(number=int(answer["window"]), ranks=(), began={})
    wait = call("await", directory, str(answer["window"]))
    return read_window(parse_facts((yield wait), "waiting for the window"))


def _choose_verb(request: WindowRequest, directory: str) -> tuple[str, str]:
    return ("schedule" if request.schedule else "request", directory)


def _describe_length(request: WindowRequest) -> tuple[str, ...]:
    steps = (f"--steps={request.steps}",) if request.steps else ()
    again = request.schedule
    words = (f"--every={again.every_s:g}", f"--keep={again.keep}") if again else ()
    return (f"--seconds={request.seconds:g}", *steps, *words)


def record_everywhere(
    calls: Mapping[str, Call], directory: str, request: WindowRequest
) -> Steps[Window]:
    """Have the agents of several places record, such as pods, each with a directory of its own.

    `calls` has each place's Call by its name. Their clocks have to agree.
    """
    if request.schedule and not request.schedule.every_s:
        ended = yield from _ask(calls, "ending the windows", "schedule", directory, "--every=0")
        last = max((int(facts["window"]) for facts in ended.values()), default=0)
        return Window(number=last, ranks=(), began={})
    armed = yield from _ask(calls, "asking for armed ranks", "armed", directory)
    names = _choose_names(_join(armed, "names"), request)
    if request.steps:
        _require_steps(names, _join(armed, "without_steps"))
    chosen = {place: calls[place] for place in calls if set(armed[place]["names"]) & set(names)}
    number = 1 + max(request.last_window, *(int(facts["last"]) for facts in armed.values()))
    start = max(float(facts["now"]) for facts in armed.values()) + _LEAD_S
    what = (f"--number={number}", f"--start={start:.3f}", *_describe_length(request))
    words = (*_choose_verb(request, directory), *what, f"--names={','.join(names)}")
    yield from _ask(chosen, "asking for a window", *words)
    if request.schedule:
        return Window(number=number, ranks=(), began={})
    waiting = {
        place: call("await", directory, str(number), "--here") for place, call in chosen.items()
    }
    answers = yield from _await_all(waiting, {place: armed[place]["names"] for place in chosen})
    return read_window({"window": number, "answers": {name: answers[name] for name in names}})


def _ask(
    calls: Mapping[str, Call], doing: str, *words: str
) -> Steps[Mapping[str, Mapping[str, Any]]]:
    """Return the facts of each place. Raises the error of the first that fails."""
    results = yield from run_at_once({place: call(*words) for place, call in calls.items()})
    return {place: _read_facts(result, f"{doing} in {place}") for place, result in results.items()}


def _read_facts(result: Result, doing: str) -> Mapping[str, Any]:
    """Return the JSON object of a result, beside which kubectl may have printed a warning."""
    lines = [line for line in result.stdout.splitlines() if line.startswith("{")]
    stdout = "\n".join(lines) or result.stdout
    return parse_facts(
        Result(returncode=result.returncode, stdout=stdout, stderr=result.stderr), doing
    )


def _choose_names(armed: Sequence[str], request: WindowRequest) -> list[str]:
    """Return the names of the ranks to record. Raises SettingsError unless all are armed."""
    if not armed:
        what = "no rank of this job is armed, and no tool can attach nsys to a program that runs"
        raise SettingsError(what, "Start it by `invoke profile --record manual`")
    ranks = {name: int(name.partition(".")[0].removeprefix("rank")) for name in sorted(armed)}
    missing = request.ranks - set(ranks.values())
    if missing:
        wanted = ", ".join(map(str, sorted(missing)))
        raise SettingsError(f"--ranks {wanted}: not armed", f"Armed are {', '.join(ranks)}")
    return [name for name, rank in ranks.items() if not request.ranks or rank in request.ranks]


def _join(facts: Mapping[str, Mapping[str, Any]], key: str) -> list[str]:
    """Return the ranks' names of all places."""
    return [name for each in facts.values() for name in each[key]]


def _require_steps(names: Sequence[str], uncounted: Collection[str]) -> None:
    without = [name for name in names if name in uncounted]
    if without:
        raise SettingsError(f"{', '.join(without)}: no step of it is marked", "Use --seconds 5")


def _await_all(
    commands: Mapping[str, Command], names: Mapping[str, Collection[str]]
) -> Steps[Mapping[str, Mapping[str, Any]]]:
    """Return the answers by rank's name. The ranks of a place that does not answer are lost."""
    answers: dict[str, Mapping[str, Any]] = {}
    pending = dict(commands)
    for _ in range(_TRIES):
        results = yield from run_at_once(pending)
        done = {place: result for place, result in results.items() if not result.returncode}
        for place, result in done.items():
            answers.update(_read_facts(result, f"waiting for {place}")["answers"])
        pending = {place: command for place, command in pending.items() if place not in done}
        if not pending:
            return answers
    lost = {place: {"state": "lost", "why": results[place].last_line} for place in pending}
    return answers | {name: lost[place] for place in pending for name in names[place]}


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
