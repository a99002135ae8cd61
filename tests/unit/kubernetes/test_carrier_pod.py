"""The parts of a pod that carry nsys to a container."""

from typing import Any

from gpu_profile.carrier import Carrier
from gpu_profile.kubernetes.carrier_pod import add_carrier

CARRIER = Carrier(source="registry.example/gpu-profile@sha256:0f", digest="0f3c", glibc="2.29")


def test_a_pod_gets_a_volume_and_an_init_container_without_rights() -> None:
    amounts = {"nvidia.com/gpu": 8, "memory": "64Gi"}
    container: dict[str, Any] = {"name": "train", "resources": {"limits": amounts}}
    spec: dict[str, Any] = {"containers": [container], "initContainers": [{"name": "theirs"}]}
    add_carrier(spec, container, CARRIER)
    theirs, ours = spec["initContainers"]
    assert theirs == {"name": "theirs"}, "the user's own stays, and stays first"
    assert ours["image"] == CARRIER.source
    assert ours["resources"] == {"limits": {"memory": "64Gi"}}, "no GPU to copy files"
    rights = ours["securityContext"]
    assert rights["runAsNonRoot"] is True
    assert rights["runAsUser"] > 0
    assert rights["capabilities"] == {"drop": ["ALL"]}
    assert rights["allowPrivilegeEscalation"] is False
    assert rights["seccompProfile"] == {"type": "RuntimeDefault"}
    (volume,), (mount,) = spec["volumes"], container["volumeMounts"]
    assert volume["name"] == mount["name"] == ours["volumeMounts"][0]["name"]
    assert mount["readOnly"] is True
    assert CARRIER.profile[0].startswith(mount["mountPath"] + "/")
    assert "resources" not in _added_to({"name": "plain"})["initContainers"][0]


def _added_to(container: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [container]}
    add_carrier(spec, container, CARRIER)
    return spec
