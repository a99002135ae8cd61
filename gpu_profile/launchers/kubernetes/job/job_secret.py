"""The Secret of a job: it holds the values of --env, and the job object refers to it."""

import base64
import json
from collections.abc import Mapping

from gpu_profile.command import Steps
from gpu_profile.errors import GpuProfileError, Interrupted
from gpu_profile.job import Job
from gpu_profile.kubernetes.kubectl import (
    KubernetesCluster,
    Object,
    check_kubectl_result,
    parse_object,
    split_id,
)
from gpu_profile.kubernetes.marks import MANAGED_BY, MANAGER, PREFIX
from gpu_profile.launchers.kubernetes import state
from gpu_profile.launchers.kubernetes.manifests import Manifest, name_secret
from gpu_profile.signals import HungUp


def make_secret_manifest(job: Job, owner: Object, uid: str) -> Manifest:
    """Return the Secret with the job's variables, owned by the job object.

    Kubernetes deletes it with its owner, whoever deletes that and whenever:
    https://kubernetes.io/docs/concepts/architecture/garbage-collection/#owners-dependents
    """
    facts = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": job.name}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name_secret(job.name),
            "labels": {MANAGED_BY: MANAGER, f"{PREFIX}/job": job.name},
            "ownerReferences": [{**facts, "uid": uid}],
        },
        "immutable": True,
        "stringData": dict(job.env),
    }


def create_secret(
    cluster: KubernetesCluster, resource: str, job: Job, owner: Object, uid: str
) -> Steps[None]:
    """Create the Secret of a job object that was just created; without it, delete the job again.

    The job comes first because an owner's uid is known then, and so no Secret can be left without
    one. Pods that are faster wait: the kubelet asks again. Raises Interrupted or what kubectl's
    message means, such as ToolError for a role that may not create secrets.
    """
    doing = f"handing the variables of --env to {job.name}"
    try:
        created = yield cluster.create(make_secret_manifest(job, owner, uid))
        check_kubectl_result(created, doing)
    except (GpuProfileError, KeyboardInterrupt, HungUp) as error:
        # In the background: the name is free at once, and pods without their Secret run nothing.
        words = ("--ignore-not-found", "--cascade=background", "--wait=false")
        deletion = yield cluster.kubectl("delete", resource, job.name, *words)
        note = f"; {job.name} is left there: {deletion.last_line}" if deletion.returncode else ""
        if not isinstance(error, GpuProfileError):
            raise Interrupted(f"interrupted while {doing}; the job was deleted{note}") from None
        raise type(error)(f"{error.what}{note}", error.hint) from error


def read_secret(cluster: KubernetesCluster, job: Object, job_id: str) -> Steps[Mapping[str, str]]:
    """Return the job's variables from its Secret; none for a job without --env.

    A role that may `get mpijobs` may lack `get secrets`: that raises ToolError, and only for a job
    that refers to its Secret.
    """
    namespace, name = split_id(job_id)
    secret = name_secret(name)
    if f'"{secret}"' not in json.dumps(job.get("spec")):
        return {}
    answer = yield from state.get_patiently(cluster, "secret", secret, namespace=namespace)
    if "(NotFound)" in answer.stderr:  # no pod ran without it, so there is no output
        return {}
    data = parse_object(answer, f"reading the Secret {secret}").get("data") or {}
    return {key: base64.b64decode(text).decode(errors="replace") for key, text in data.items()}
