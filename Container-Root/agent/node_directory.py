"""Refuse a directory of a node that somebody made before the job. Python 3.8, stdlib only.

With `--report-to hostpath:/tmp` the kubelet mounts `/tmp/train-1` of the node as it finds it: of
another user, or through a link that leads elsewhere. A pod sees the target, and in mountinfo
(proc_pid_mountinfo(5)) the path that it has on the node.
"""

from __future__ import annotations

import os
from pathlib import Path

from rank_call import RefusedError

_MOUNTS = Path("/proc/self/mountinfo")
_HOSTS, _OF_KUBELET = "/etc/hosts", "/etc-hosts"
"""A pod's /etc/hosts is a file of that name in the kubelet's directory of the pod."""
_OTHERS_WRITE = 0o022
_PLANTED = 97
"""Exit code that tells the fetch (copy_reports.py) that this pod has no reports."""


def refuse_planted(output: Path, mounts: Path = _MOUNTS) -> None:
    """Raise RefusedError where a node's directory, mounted as the run's own, is not root's."""
    roots = _read_roots(mounts)
    root = roots.get(str(output))
    if root is None or not roots.get(_HOSTS, "").endswith(_OF_KUBELET):
        return
    status = output.stat()
    if root.rpartition("/")[2] != output.name:
        why = f"is a link to {root} on this node"
    elif status.st_uid != os.getuid() or status.st_mode & _OTHERS_WRITE:
        why = f"is {root} on this node, where another user can write"
    else:
        return
    raise RefusedError(f"{output} {why}: remove it there, or use another hostpath:", _PLANTED)


def _read_roots(mounts: Path) -> dict[str, str]:
    """Return what each mount point shows, as a path of its file system."""
    try:
        rows = [line.split(" ") for line in mounts.read_text(encoding="utf-8").splitlines()]
    except OSError:
        return {}
    return {row[4]: row[3] for row in rows if len(row) > 4}
