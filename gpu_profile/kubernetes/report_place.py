"""Where a job's reports go besides this machine: a claim, a directory of each node, or a bucket."""

import re
from dataclasses import dataclass
from typing import Any

from gpu_profile.errors import SettingsError

_HOST_PATH = re.compile(r"(?:/[\w.@-]+)+")
_BUCKET = re.compile(r"s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9](?:/[\w.@=+-]+)*")
_FORMS = "Use pvc:NAME:/path, hostpath:/tmp or s3://bucket/prefix"


@dataclass(frozen=True, kw_only=True)
class ReportPlace:
    """Where reports go, of KUBE_REPORT_TO. Without any of the three they stay in the pods.

    `claim` is a PersistentVolumeClaim, which pods have at `mount`. `host_path` is a directory of
    each node, such as `/tmp`, in which the run gets one of its own. `bucket` is `s3://team/night`:
    there reports go when they are fetched.
    """

    claim: str = ""
    mount: str = ""
    host_path: str = ""
    bucket: str = ""

    @classmethod
    def parse(cls, text: str) -> "ReportPlace":
        """Return the place of `pvc:NAME:/path`, `hostpath:/tmp`, `s3://bucket/prefix` or ""."""
        kind, _, place = text.partition(":")
        if not text:
            return cls()
        if kind == "pvc":
            claim, _, path = place.partition(":")
            if claim and path.startswith("/") and path.strip("/"):
                return cls(claim=claim, mount=path.rstrip("/"))
        elif kind == "hostpath":
            path = place.rstrip("/")
            if _HOST_PATH.fullmatch(path) and ".." not in path.split("/"):
                return cls(host_path=path)
        elif kind == "s3" and _BUCKET.fullmatch(text.rstrip("/")):
            return cls(bucket=text.rstrip("/"))
        raise SettingsError(f"KUBE_REPORT_TO {text!r} is not a place for reports", _FORMS)

    @property
    def takes_root(self) -> bool:
        """Whether only root may write there: the kubelet makes a node's directory for root."""
        return bool(self.host_path)

    def choose_mount(self, run: str, default: str) -> str:
        """Return where pods have the volume, `default` unless the place says it.

        Of a node's directory they see the run's own alone: `/wd/train-1`.
        """
        return f"{default}/{run}" if self.host_path else self.mount or default

    def choose_directory(self, run: str, default: str) -> str:
        """Return the directory of a run's reports in its pods, such as `/wd/train-1`."""
        return f"{self.mount or default}/{run}"

    def make_source(self, run: str, disk_gib: int) -> dict[str, Any]:
        """Return what a volume consists of, besides its name."""
        if self.claim:
            return {"persistentVolumeClaim": {"claimName": self.claim}}
        if self.host_path:
            path = f"{self.host_path}/{run}"
            return {"hostPath": {"path": path, "type": "DirectoryOrCreate"}}
        return {"emptyDir": {"sizeLimit": f"{disk_gib}Gi"}}

    def make_notes(self, run: str) -> dict[str, str]:
        """Return what the job's annotations say of the place, for a fetch on any machine."""
        paths = {"host-path": self.host_path, "bucket": self.bucket}
        notes = {"claim": self.claim} if self.claim else {}
        return notes | {key: f"{path}/{run}" for key, path in paths.items() if path}

    def describe(self, run: str) -> str:
        """Return where the reports stay after the fetch: `/tmp/train-1 of each node`."""
        if self.claim:
            return f"claim {self.claim}, in {run}"
        if self.host_path:
            return f"{self.host_path}/{run} of each node"
        return f"{self.bucket}/{run}" if self.bucket else ""
