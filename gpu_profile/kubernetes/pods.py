"""Read pods and events: why a job waits, and why it ended."""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gpu_profile.kubernetes.kubectl import Object
from gpu_profile.kubernetes.marks import DEFAULT_CONTAINER
from gpu_profile.printable import remove_controls

# A pod does not leave one of these states until the job is changed.
_HOPELESS = (
    "ImagePullBackOff",
    "InvalidImageName",
    "ErrImageNeverPull",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
)
# A job's Secret is created just after the job. The kubelet looks for it again every few seconds. A
# busy kubelet has not heard of it yet ("failed to sync secret cache"), and asks again, too.
_COMING = re.compile(r'secret "\S+-env" not found|failed to sync \w+ cache: timed out')


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """Why a pod does not run. `hopeless`: it will not run however long one waits."""

    pod: str
    reason: str
    hopeless: bool = False

    def __str__(self) -> str:
        return f"{self.pod}: {self.reason}"


def draw_name(start: str) -> str:
    """Return `start` and 6 random hexadecimal digits: `train-1-probe-3f9c1a`.

    A name of the API server's choice (generateName) is not known where the creation is interrupted.
    """
    return f"{start}-{os.urandom(3).hex()}"


def get_name(item: Object) -> str:
    return str(item["metadata"]["name"])


def get_phase(pod: Object) -> str:
    return str(pod.get("status", {}).get("phase", "Pending"))


def is_running(pod: Object) -> bool:
    """Return whether the pod runs, its main container too, and is not being deleted."""
    runs = get_phase(pod) == "Running" and not has_left_others(pod)
    return runs and not pod["metadata"].get("deletionTimestamp")


def has_left_others(pod: Object) -> bool:
    """Return whether the main container has ended for good, and others keep the pod running."""
    is_last = pod["spec"].get("restartPolicy") == "Never" and get_phase(pod) == "Running"
    return is_last and get_termination(pod) is not None


def has_failed_beside_others(pod: Object) -> bool:
    """Return whether the main container has failed for good, and others keep the pod running."""
    return has_left_others(pod) and bool((get_termination(pod) or {}).get("exitCode"))


def get_node(pod: Object) -> str:
    return str(pod["spec"].get("nodeName", ""))


def _list_container_statuses(pod: Object) -> Iterator[Object]:
    status = pod.get("status", {})
    yield from status.get("initContainerStatuses", ())
    yield from status.get("containerStatuses", ())


def get_termination(pod: Object) -> Object | None:
    """Return how the pod's main container ended, otherwise its first; None while it runs.

    Its keys are exitCode, reason and message.
    """
    statuses: Sequence[Object] = pod.get("status", {}).get("containerStatuses", ())
    name = (pod["metadata"].get("annotations") or {}).get(DEFAULT_CONTAINER)
    main = [status for status in statuses if status.get("name") == name] or statuses[:1]
    termination: Object | None = main[0].get("state", {}).get("terminated") if main else None
    return termination


def _find_condition(pod: Object, kind: str, status: str) -> Object | None:
    for condition in pod.get("status", {}).get("conditions", ()):
        if condition["type"] == kind and condition["status"] == status:
            match: Object = condition
            return match
    return None


def _join_words(*parts: object) -> str:
    """Return the non-empty words as one line."""
    return " ".join(": ".join(str(part) for part in parts if part).split()).rstrip(": ")


def find_trouble(pod: Object) -> Trouble | None:
    """Return why a pod does not run yet: scheduling, image or volume. None if nothing is wrong."""
    for status in _list_container_statuses(pod):
        waiting = status.get("state", {}).get("waiting") or {}
        reason = waiting.get("reason", "")
        if reason and reason not in ("ContainerCreating", "PodInitializing"):
            message = str(waiting.get("message", ""))
            return Trouble(
                pod=get_name(pod),
                reason=_join_words(reason, message),
                hopeless=reason in _HOPELESS and not _COMING.search(message),
            )
    unscheduled = _find_condition(pod, "PodScheduled", "False")
    if unscheduled:
        words = _join_words(unscheduled.get("reason"), unscheduled.get("message"))
        return Trouble(pod=get_name(pod), reason=words)
    if get_phase(pod) == "Pending":
        return Trouble(pod=get_name(pod), reason="not started yet")
    return None


def describe_ending(pod: Object) -> str:
    """Return how a pod ended, in the cluster's words; empty for success."""
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
    """Return the last printable line of a termination message, which our scripts write."""
    lines = map(remove_controls, str(message or "").splitlines())
    return ([line.strip() for line in lines if line.strip()] or [""])[-1]


def is_deserted(pod: Object) -> bool:
    """Return whether the pod's node has stopped answering.

    Kubernetes then sets the pod's condition Ready to False, while ContainersReady stays True.
    """
    return bool(
        _find_condition(pod, "ContainersReady", "True") and _find_condition(pod, "Ready", "False")
    )


def is_overdue(pod: Object, now: str) -> bool:
    """Return whether the pod should be deleted by `now` (an API time) and still exists."""
    end = str(pod["metadata"].get("deletionTimestamp", ""))
    return bool(end and get_node(pod)) and get_phase(pod) in {"Running", "Pending"} and end < now


def list_troubles(pods: Iterable[Object]) -> tuple[Trouble, ...]:
    return tuple(pod_trouble for pod_trouble in map(find_trouble, pods) if pod_trouble)


def list_warnings(events: Iterable[Object], job: str) -> tuple[str, ...]:
    """Return the warnings about a job, its parts and its pods: newest last, each once."""
    about = [
        event
        for event in events
        if event.get("type") == "Warning"
        # every start has this warning: the probe runs before sshd listens
        and event.get("reason") != "Unhealthy"
        and f"{event['involvedObject'].get('name', '')}-".startswith(f"{job}-")
    ]
    about.sort(key=lambda event: str(event.get("lastTimestamp") or event.get("eventTime") or ""))
    lines = (
        _join_words(e["involvedObject"]["name"], e.get("reason"), e.get("message")) for e in about
    )
    return tuple(dict.fromkeys(lines))


def explain_waiting(pod_troubles: Sequence[Trouble], pod_warnings: Sequence[str]) -> str:
    """Return one line: what a pod waits for, otherwise the newest warning."""
    telling = [trouble for trouble in pod_troubles if trouble.reason != "not started yet"]
    if telling:
        return str(telling[0])
    if pod_warnings:
        return pod_warnings[-1]
    return str(pod_troubles[0]) if pod_troubles else ""
