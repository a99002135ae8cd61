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


def get_name(item: Object) -> str:
    return str(item["metadata"]["name"])


def get_phase(pod: Object) -> str:
    return str(pod.get("status", {}).get("phase", "Pending"))


def is_running(pod: Object) -> bool:
    """Running, and not on its way out."""
    return get_phase(pod) == "Running" and not pod["metadata"].get("deletionTimestamp")


def get_node(pod: Object) -> str:
    return str(pod["spec"].get("nodeName", ""))


def _container_statuses(pod: Object) -> Iterator[Object]:
    status = pod.get("status", {})
    yield from status.get("initContainerStatuses", ())
    yield from status.get("containerStatuses", ())


def get_termination(pod: Object) -> Object | None:
    """How the pod's first container ended: exitCode, reason, message; None while it lives."""
    for status in pod.get("status", {}).get("containerStatuses", ()):
        termination: Object | None = status.get("state", {}).get("terminated")
        return termination
    return None


def _find_condition(pod: Object, kind: str, status: str) -> Object | None:
    for condition in pod.get("status", {}).get("conditions", ()):
        if condition["type"] == kind and condition["status"] == status:
            match: Object = condition
            return match
    return None


def _join_words(*parts: object) -> str:
    """Words of the API as one line, without what is empty."""
    return " ".join(": ".join(str(part) for part in parts if part).split()).rstrip(": ")


def find_trouble(pod: Object) -> Trouble | None:
    """Why a pod does not run yet: unscheduled, an image, a volume. None for a sound one."""
    for status in _container_statuses(pod):
        waiting = status.get("state", {}).get("waiting") or {}
        reason = waiting.get("reason", "")
        if reason and reason not in ("ContainerCreating", "PodInitializing"):
            return Trouble(
                pod=get_name(pod),
                reason=_join_words(reason, waiting.get("message")),
                hopeless=reason in _HOPELESS,
            )
    unscheduled = _find_condition(pod, "PodScheduled", "False")
    if unscheduled:
        words = _join_words(unscheduled.get("reason"), unscheduled.get("message"))
        return Trouble(pod=get_name(pod), reason=words)
    if get_phase(pod) == "Pending":
        return Trouble(pod=get_name(pod), reason="not started yet")
    return None


def describe_ending(pod: Object) -> str:
    """How a pod came to its end, in the cluster's words; empty for one that just succeeded."""
    status = pod.get("status", {})
    disrupted = _find_condition(pod, "DisruptionTarget", "True")
    if disrupted:
        return _join_words(disrupted.get("reason"), disrupted.get("message"))
    if status.get("reason"):
        return _join_words(status["reason"], status.get("message"))
    end = get_termination(pod)
    if end and end.get("exitCode"):
        return _join_words(
            f"exit code {end['exitCode']}",
            end.get("reason"),
            _extract_last_line(end.get("message")),
        )
    if pod["metadata"].get("deletionTimestamp"):
        return "deleted"
    return ""


def _extract_last_line(message: Any) -> str:  # noqa: ANN401 - the API's own
    """The last line of a termination message: our scripts' own word."""
    lines = str(message or "").strip().splitlines()
    return lines[-1] if lines else ""


def is_deserted(pod: Object) -> bool:
    """Whether its node has gone silent: its container was ready, and the cluster takes it back."""
    return bool(
        _find_condition(pod, "ContainersReady", "True") and _find_condition(pod, "Ready", "False")
    )


def is_overdue(pod: Object, now: str) -> bool:
    """Whether it should have ended by `now`, the API's own kind of time, and is still there."""
    end = str(pod["metadata"].get("deletionTimestamp", ""))
    return bool(end and get_node(pod)) and get_phase(pod) in {"Running", "Pending"} and end < now


def list_troubles(pods: Iterable[Object]) -> tuple[Trouble, ...]:
    return tuple(pod_trouble for pod_trouble in map(find_trouble, pods) if pod_trouble)


def list_warnings(events: Iterable[Object], job: str) -> tuple[str, ...]:
    """The warnings about a job, its parts and its pods, newest last, each once."""
    about = [
        event
        for event in events
        if event.get("type") == "Warning"
        and event.get("reason") != "Unhealthy"  # a probe before sshd listens: every start's
        and f"{event['involvedObject'].get('name', '')}-".startswith(f"{job}-")
    ]
    about.sort(key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))
    lines = (
        _join_words(e["involvedObject"]["name"], e.get("reason"), e.get("message")) for e in about
    )
    return tuple(dict.fromkeys(lines))


def explain_waiting(pod_troubles: Sequence[Trouble], pod_warnings: Sequence[str]) -> str:
    """The one line that tells most: what a pod waits for, otherwise the newest warning."""
    telling = [trouble for trouble in pod_troubles if trouble.reason != "not started yet"]
    if telling:
        return str(telling[0])
    if pod_warnings:
        return pod_warnings[-1]
    return str(pod_troubles[0]) if pod_troubles else ""
