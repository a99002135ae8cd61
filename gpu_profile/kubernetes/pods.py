"""What a job's pods and events say, in a line: why it waits, why it ended."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_profile.kubernetes.kubectl import Object

# A pod in one of these states stays there until somebody changes the job.
_HOPELESS = (
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
)


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """What keeps a pod from running. `hopeless`: waiting longer will not help."""

    pod: str
    reason: str
    hopeless: bool = False

    def __str__(self) -> str:
        return f"{self.pod}: {self.reason}"


def name(item: Object) -> str:
    return str(item["metadata"]["name"])


def phase(pod: Object) -> str:
    return str(pod.get("status", {}).get("phase", "Pending"))


def is_running(pod: Object) -> bool:
    """Running, and not on its way out."""
    return phase(pod) == "Running" and not pod["metadata"].get("deletionTimestamp")


def node(pod: Object) -> str:
    return str(pod["spec"].get("nodeName", ""))


def _container_statuses(pod: Object) -> Iterator[Object]:
    status = pod.get("status", {})
    yield from status.get("initContainerStatuses", ())
    yield from status.get("containerStatuses", ())


def terminated(pod: Object) -> Object | None:
    """How the pod's first container ended: exitCode, reason, message; None while it lives."""
    for status in pod.get("status", {}).get("containerStatuses", ()):
        found: Object | None = status.get("state", {}).get("terminated")
        return found
    return None


def _condition(pod: Object, kind: str, status: str) -> Object | None:
    for condition in pod.get("status", {}).get("conditions", ()):
        if condition["type"] == kind and condition["status"] == status:
            found: Object = condition
            return found
    return None


def _line(*parts: object) -> str:
    """Words of the API as one line, without what is empty."""
    return " ".join(": ".join(str(part) for part in parts if part).split()).rstrip(": ")


def trouble(pod: Object) -> Trouble | None:
    """Why a pod does not run yet: unscheduled, an image, a volume. None for a sound one."""
    for status in _container_statuses(pod):
        waiting = status.get("state", {}).get("waiting") or {}
        reason = waiting.get("reason", "")
        if reason and reason not in ("ContainerCreating", "PodInitializing"):
            return Trouble(
                pod=name(pod),
                reason=_line(reason, waiting.get("message")),
                hopeless=reason in _HOPELESS,
            )
    unscheduled = _condition(pod, "PodScheduled", "False")
    if unscheduled:
        words = _line(unscheduled.get("reason"), unscheduled.get("message"))
        return Trouble(pod=name(pod), reason=words)
    if phase(pod) == "Pending":
        return Trouble(pod=name(pod), reason="not started yet")
    return None


def ending(pod: Object) -> str:
    """How a pod came to its end, in the cluster's words; empty for one that just succeeded."""
    status = pod.get("status", {})
    disrupted = _condition(pod, "DisruptionTarget", "True")
    if disrupted:
        return _line(disrupted.get("reason"), disrupted.get("message"))
    if status.get("reason"):
        return _line(status["reason"], status.get("message"))
    end = terminated(pod)
    if end and end.get("exitCode"):
        return _line(f"exit code {end['exitCode']}", end.get("reason"), _last(end.get("message")))
    if pod["metadata"].get("deletionTimestamp"):
        return "deleted"
    return ""


def _last(message: Any) -> str:  # noqa: ANN401 - the API's own
    """The last line of a termination message: our scripts' own word."""
    lines = str(message or "").strip().splitlines()
    return lines[-1] if lines else ""


def deserted(pod: Object) -> bool:
    """Whether its node has gone silent: its container was ready, and the cluster takes it back."""
    return bool(_condition(pod, "ContainersReady", "True") and _condition(pod, "Ready", "False"))


def overdue(pod: Object, now: str) -> bool:
    """Whether it should have ended by `now`, the API's own kind of time, and is still there."""
    end = str(pod["metadata"].get("deletionTimestamp", ""))
    return bool(end and node(pod)) and phase(pod) in {"Running", "Pending"} and end < now


def troubles(pods: Iterable[Object]) -> tuple[Trouble, ...]:
    return tuple(found for found in map(trouble, pods) if found)


def warnings(events: Iterable[Object], job: str) -> tuple[str, ...]:
    """The warnings about a job, its parts and its pods, newest last, each once."""
    about = [
        event
        for event in events
        if event.get("type") == "Warning"
        and event.get("reason") != "Unhealthy"  # a probe before sshd listens: every start's
        and f"{event['involvedObject'].get('name', '')}-".startswith(f"{job}-")
    ]
    about.sort(key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))
    lines = (_line(e["involvedObject"]["name"], e.get("reason"), e.get("message")) for e in about)
    return tuple(dict.fromkeys(lines))


def why(found: Sequence[Trouble], said: Sequence[str]) -> str:
    """The one line that tells most: what a pod waits for, otherwise the newest warning."""
    telling = [trouble for trouble in found if trouble.reason != "not started yet"]
    if telling:
        return str(telling[0])
    if said:
        return said[-1]
    return str(found[0]) if found else ""
