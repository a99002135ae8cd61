"""What a pod needs so that nsys is carried to one of its containers. Nothing is run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpu_profile.carrier import CARRIED_TO, Carrier

_VOLUME = "gpu-profile-carrier"
_SIZE_LIMIT = "1Gi"  # 260 MB with nsys 2023.4; newer ones bring more of CUPTI
_NOBODY = 65534
_COPIED = ("cpu", "memory")


@dataclass(frozen=True, kw_only=True)
class PodAdditions:
    """The parts to add to a pod: plain objects of the Kubernetes API.

    `volume` goes into `spec.volumes`, `init_container` into `spec.initContainers`, `mount` into the
    container's `volumeMounts`. The container's command then begins with `Carrier.profile`, and
    after it come the options of profile.py, `--` and the command that it had.
    """

    volume: Mapping[str, Any]
    init_container: Mapping[str, Any]
    mount: Mapping[str, Any]


def make_additions(carrier: Carrier, container: Mapping[str, Any]) -> PodAdditions:
    """Return what carries nsys to a container. `carrier.source` is the address of our image.

    The init container keeps to PodSecurity `restricted`: it needs no rights, and no account of its
    own. It asks for the CPUs and memory of the container, where that asks for some, because a
    quota may demand it; the pod's total stays the same.
    """
    init_container: dict[str, Any] = {
        "name": _VOLUME,
        "image": carrier.source,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", carrier.checker, "copy", CARRIED_TO, "/carried"],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "runAsUser": _NOBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": _VOLUME, "mountPath": "/carried"}],
    }
    resources = _copy_resources(container.get("resources") or {})
    if resources:
        init_container["resources"] = resources
    return PodAdditions(
        volume={"name": _VOLUME, "emptyDir": {"sizeLimit": _SIZE_LIMIT}},
        init_container=init_container,
        mount={"name": _VOLUME, "mountPath": carrier.directory, "readOnly": True},
    )


def _copy_resources(resources: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the CPUs and memory of a container's resources, without its GPUs."""
    copied = {
        kind: {name: amounts[name] for name in _COPIED if name in amounts}
        for kind, amounts in resources.items()
        if isinstance(amounts, Mapping)
    }
    return {kind: amounts for kind, amounts in copied.items() if amounts}


def add_carrier(spec: dict[str, Any], container: dict[str, Any], carrier: Carrier) -> None:
    """Add to a pod's spec, and to one of its containers, what carries nsys there."""
    additions = make_additions(carrier, container)
    spec["volumes"] = [*spec.get("volumes", ()), dict(additions.volume)]
    spec["initContainers"] = [*spec.get("initContainers", ()), dict(additions.init_container)]
    container["volumeMounts"] = [*container.get("volumeMounts", ()), dict(additions.mount)]
