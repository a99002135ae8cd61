"""Pods, jobs and answers as the API server gives them, cut to what is read."""

import json
from collections.abc import Sequence
from typing import Any

from gpu_profile.command import Command, Result, Steps
from gpu_profile.kubernetes.yaml_text import load_yaml


def answer(value: object) -> Result:
    return Result(returncode=0, stdout=json.dumps(value))


def refused(stderr: str) -> Result:
    return Result(returncode=1, stderr=stderr)


def items(*objects: object) -> Result:
    return answer({"items": list(objects)})


def pod(name: str, phase: str = "Running", **status: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"nodeName": "node-1", "containers": [{"name": "worker"}]},
        "status": {"phase": phase, **status},
    }


def ended(name: str, code: int, message: str = "", reason: str = "Error") -> dict[str, Any]:
    end = {"exitCode": code, "reason": reason, "message": message}
    phase = "Failed" if code else "Succeeded"
    return pod(name, phase, containerStatuses=[{"state": {"terminated": end}}])


def waiting(name: str, reason: str, message: str = "") -> dict[str, Any]:
    state = {"waiting": {"reason": reason, "message": message}}
    return pod(name, "Pending", containerStatuses=[{"state": state}])


def unscheduled(name: str, message: str) -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return pod(name, "Pending", conditions=[condition | {"message": message}])


def mpijob(*conditions: str, stopped: bool = False, workers: int = 2) -> dict[str, Any]:
    notes = {"gpu-profile.io/reports": "/wd/train-1", "gpu-profile.io/wait-seconds": "600"}
    if stopped:
        notes["gpu-profile.io/stopped"] = "true"
    return {
        "metadata": {
            "name": "train-1",
            "labels": {"app.kubernetes.io/managed-by": "gpu-profile"},
            "annotations": notes,
            "creationTimestamp": "2026-11-21T03:00:00Z",
        },
        "spec": {"mpiReplicaSpecs": {"Worker": {"replicas": workers}}},
        "status": {"conditions": [{"type": c, "status": "True"} for c in conditions]},
    }


def warning(name: str, message: str) -> dict[str, Any]:
    return {
        "type": "Warning",
        "reason": "Failed",
        "message": message,
        "involvedObject": {"name": name},
    }


def name_of_new_pod(create: Command) -> str:
    return str(load_yaml(create.stdin)["metadata"]["name"])


def driven(steps: Steps[Any], *answers: Result) -> tuple[Any, list[Command]]:
    """The value of steps that get these answers, and the commands that they yielded."""
    left: Sequence[Result] = answers
    commands = [next(steps)]
    try:
        while True:
            first, *left = left
            commands.append(steps.send(first))
    except StopIteration as stop:
        return stop.value, commands
