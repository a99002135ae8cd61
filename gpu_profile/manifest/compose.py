"""A service of a docker compose file, and the file that docker compose reads after the user's."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from gpu_profile.errors import SettingsError
from gpu_profile.job import FINALISE_S, Job, Mount, NsysPlan
from gpu_profile.manifest.container_words import make_container_words
from gpu_profile.manifest.starters import count_ranks, find_starter
from gpu_profile.manifest.user_manifest import Entrypoint

OVERRIDE = "compose.gpu-profile.yaml"
"""The name of our file in the run directory."""


@dataclass(frozen=True, kw_only=True)
class ComposeService:
    """A service as `docker compose config` describes it. `file` is the user's: `compose.yaml`.

    `address` is that of its image, its own or the one that compose builds. `image` has the
    entrypoint that stands where the service has none.
    """

    file: Path
    name: str
    facts: Mapping[str, Any]
    address: str = ""
    image: Entrypoint = field(default_factory=lambda: Entrypoint(entrypoint=(), cmd=()))

    @classmethod
    def choose(cls, file: Path, config: Mapping[str, Any], name: str) -> "ComposeService":
        """Return the named service, or the only one. Raises SettingsError."""
        services = config.get("services") or {}
        if not services:
            raise SettingsError(f"{file.name} has no service", "Write one below services:")
        if name and name not in services:
            what = f"{file.name} has no service {name!r}"
            raise SettingsError(what, f"There are {', '.join(services)}")
        if not name and len(services) != 1:
            what = f"{file.name} has {len(services)} services: {', '.join(services)}"
            raise SettingsError(what, "Choose by --container NAME")
        chosen = name or next(iter(services))
        facts = services[chosen]
        if not facts.get("image") and not facts.get("build"):
            raise SettingsError(f"service {chosen} has no image:", "Write it there")
        built = f"{config.get('name', '')}-{chosen}"
        address = str(facts.get("image") or built)
        return cls(file=file, name=chosen, facts=facts, address=address)

    @property
    def has_command(self) -> bool:
        """Whether the file says all that the container starts, so that the image need not."""
        return bool(self.facts.get("entrypoint"))

    @property
    def words(self) -> tuple[str, ...]:
        """What the container starts: compose's own words, or the image's in their place."""
        written, command = self._read_words("entrypoint"), self._read_words("command")
        entrypoint = written or self.image.entrypoint
        # An entrypoint of the file's clears the image's CMD (compose specification, entrypoint).
        return (*entrypoint, *(command or (() if written else self.image.cmd)))

    def _read_words(self, key: str) -> tuple[str, ...]:
        """Return words of the file. `docker compose config` prints each `$` of them twice."""
        return tuple(str(word).replace("$$", "$") for word in self.facts.get(key) or ())

    @property
    def title(self) -> str:
        return f"service {self.name} of {self.file.name}"

    @property
    def starts_others(self) -> bool:
        return bool(self.facts.get("depends_on"))

    def count_gpus(self) -> int | None:
        """Return the GPUs that it reserves, 0 for none; None for all."""
        if self.facts.get("gpus") or self.facts.get("runtime") == "nvidia":
            return None
        resources = (self.facts.get("deploy") or {}).get("resources") or {}
        devices = (resources.get("reservations") or {}).get("devices") or ()
        gpus = [device for device in devices if "gpu" in (device.get("capabilities") or ())]
        counts = [len(device.get("device_ids") or ()) or device.get("count", -1) for device in gpus]
        return None if any(int(count) < 0 for count in counts) else sum(map(int, counts))

    def count_ranks(self) -> int:
        return count_ranks(self.words, find_starter(self.words))

    def describe(self) -> str:
        """Return one line: `service train of compose.yaml: one report a rank, which torchrun …`."""
        return f"{self.title}: {find_starter(self.words).says}"

    def make_override(self, job: Job, plan: NsysPlan, reports: Mount, label: str) -> str:
        """Return the text of our file. Raises SettingsError where nothing is started."""
        if not self.words:
            raise SettingsError(f"{self.title} starts no command", "Write it into command:")
        starter = find_starter(self.words)
        ours = make_container_words(job, plan, starter, hold_s=0, output=reports.target)
        volumes = [{"type": "bind", "source": str(reports.source), "target": reports.target}]
        service: dict[str, Any] = {
            "entrypoint": list(map(_quote, ours)),
            "command": list(map(_quote, self.words)),
            "volumes": [*volumes, *_mount_carrier(job)],
            "labels": {label: job.name},
            "stop_grace_period": f"{FINALISE_S}s",
        }
        if plan.needs_privileges:
            service["cap_add"] = ["SYS_ADMIN"]
        if self.facts.get("read_only") and not self._has_temporary():
            service["tmpfs"] = ["/tmp"]
        override: dict[str, Any] = {"services": {self.name: service}}
        if job.carrier and not job.carrier.is_agent:
            override["volumes"] = {job.carrier.source: {"external": True}}
        return yaml.safe_dump(override, sort_keys=False, width=1 << 20)

    def _has_temporary(self) -> bool:
        mounts = [volume.get("target") for volume in self.facts.get("volumes") or ()]
        tmpfs = self.facts.get("tmpfs") or ()
        return "/tmp" in mounts or any(str(each).partition(":")[0] == "/tmp" for each in tmpfs)


def is_compose(documents: list[dict[str, Any]]) -> bool:
    """Return whether a file is of docker compose: a mapping with services: or include:, no kind."""
    if len(documents) != 1:
        return False
    (document,) = documents
    is_named = any(key in document for key in ("services", "include"))
    return is_named and isinstance(document.get("services") or {}, dict) and "kind" not in document


def _quote(word: str) -> str:
    """Return a word in which compose replaces nothing: `$` begins a variable there."""
    return word.replace("$", "$$")


def _mount_carrier(job: Job) -> list[dict[str, Any]]:
    if job.carrier is None:
        return []
    if job.carrier.is_agent:
        place = {"source": job.carrier.source, "target": job.carrier.agent}
        return [{"type": "bind", **place, "read_only": True}]
    return [
        {
            "type": "volume",
            "source": job.carrier.source,
            "target": job.carrier.directory,
            "read_only": True,
            "volume": {"nocopy": True},
        }
    ]
