"""The labels and annotations by which objects of the cluster are known as ours."""

from gpu_profile.kubernetes.kubectl import Object

PREFIX = "gpu-profile.io"
MANAGED_BY, MANAGER = "app.kubernetes.io/managed-by", "gpu-profile"
RUN_LABEL = f"{PREFIX}/run"
"""On an object of the user's own manifest: the id of the run that it was edited for."""
OBJECT_LABEL = f"{PREFIX}/object"
"""On the pods of such an object: its name."""
DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
"""On a pod: the container that kubectl and we mean (kubernetes.io/docs, "Well-Known Labels")."""


def is_ours(item: Object) -> bool:
    """Return whether an object was made or edited by us, so that we may stop and fetch it."""
    labels = item.get("metadata", {}).get("labels") or {}
    return labels.get(MANAGED_BY) == MANAGER or RUN_LABEL in labels
