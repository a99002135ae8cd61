"""Settings, the values of .env, environment and command line, checked and frozen."""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from gpu_profile import redact
from gpu_profile.components.table import COMPONENTS, missing_requirements
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.declared.key import Key
from gpu_profile.declared.key_fields import (
    LauncherSettings,
    list_keys,
    make_field,
    make_words_field,
)
from gpu_profile.declared.launchers import LAUNCHER_KEYS, LAUNCHERS
from gpu_profile.errors import SettingsError, did_you_mean
from gpu_profile.job import Annotate
from gpu_profile.settings import envfile
from gpu_profile.settings.parse import parse_value

T = TypeVar("T", bound=LauncherSettings)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings. A field is named like its key in .env, in small letters.

    Those of launchers and components stand in their own files.
    """

    registry: str = make_field(
        "", "Registry to push to, as in 123456789012.dkr.ecr.us-west-2.amazonaws.com", "registry"
    )
    image: str = make_field("gpu-profile", "The image's name, without registry and tag", "image")
    version: str = make_field(
        "latest", "The image's tag; auto is a hash of all that goes into it", "tag"
    )
    aws_region: str = make_field(
        "", "Region that an ECR registry must be in; empty is what REGISTRY says", "region"
    )
    ecr_registry: str = make_field(
        "",
        "The ECR registry behind a REGISTRY of another name (a proxy, a private endpoint)",
        "registry",
    )
    ecr_immutable_tags: bool = make_field(
        True, "A repository that push creates refuses to move a tag"
    )
    ecr_scan_on_push: bool = make_field(
        True, "A repository that push creates scans what it is given"
    )

    base_image: str = make_field(
        "auto",
        "Debian or Ubuntu image to build on, embedded for a base made here, or auto: NVIDIA's CUDA image where its registry answers, otherwise embedded",
        "address",
    )
    cuda_archs: str = make_field(
        "80,90,100",
        "GPU architectures to compile for: 80 A100, 90 H100 and H200, 100 B200",
        "archs",
    )
    ca_bundle: str = make_field(
        "", "Certificates that downloads in the build need (a file); never in the image", "path"
    )
    build_opts: str = make_words_field("More options for `docker buildx build`")
    http_proxy: str = make_field(
        "", "Proxy of the build's downloads; not kept in the image", "proxy"
    )
    https_proxy: str = make_field("", "The same for HTTPS", "proxy")
    no_proxy: str = make_field("", "Hosts reached without it", "hosts")

    container: str = make_field(
        "gpu-profile", "Name of the container that run, exec, logs, status and stop mean", "name"
    )
    port_map: str = make_field("", "Ports of that container, as in -p 8080:8080", "ports")
    vol_map: str = make_field("", "Volumes of that container, as in -v /data:/data", "volumes")
    network: str = make_field(
        "", "Network of containers: bridge, host, none or one of your own", "name"
    )
    run_opts: str = make_words_field("More options for `docker run`")
    shm_size: str = make_field(
        "1g", "Shared memory of containers; data loaders and NCCL need it", "size"
    )
    report_dir: Path = make_field(Path("/tmp"), "Where runs and their reports are kept", "path")
    unpack_limit_gb: str = make_field(
        "16", "Most gigabytes that a packed report (.gz) may unpack to", "count"
    )
    compare_spread: str = make_field(
        "3%",
        "What runs of one program differ by, where compare has too few to measure it",
        "percent",
    )

    annotate: Annotate = make_field(
        "steps", "What profile marks in a PyTorch program: steps, also its modules, also operators"
    )
    launcher: str = make_field(
        "docker", "Where profile and test run when --on does not say it", "choice", tuple(LAUNCHERS)
    )
    nsys: str = make_field("", "Path of the nsys to use on hosts; empty finds the newest", "path")

    component: Mapping[str, str | bool] = field(default_factory=dict)
    """The components' keys and values."""
    launcher_values: Mapping[str, str | bool] = field(default_factory=dict)
    """The keys of launchers' rows and their values: `{"SLURM_PARTITION": "gpu"}`."""
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Where each key's value came from."""

    @property
    def image_ref(self) -> ImageRef:
        place = ImageRef(registry=self.registry, name=self.image, tag=self.version)
        return ImageRef.parse(str(place))

    def with_image(self, address: str) -> "Settings":
        """Return the settings with this image, such as `team/app:1.2`, in place of IMAGE."""
        image = ImageRef.parse(address)
        return dataclasses.replace(
            self,
            registry=image.registry,
            image=image.name,
            version=image.tag or "latest",
            component={**self.component, "CARRIER_IMAGE": str(self.carrier_ref)},
        )

    @property
    def carrier_ref(self) -> ImageRef:
        """The image of ours whose nsys is carried to jobs of other images."""
        return ImageRef.parse(str(self.component.get("CARRIER_IMAGE") or self.image_ref))

    @property
    def unpack_limit_bytes(self) -> int:
        return int(self.unpack_limit_gb) * 10**9

    def of(self, kind: type[T]) -> T:
        """Return a launcher's settings: `settings.of(SlurmSettings).partition`."""
        return kind.read(self.launcher_values)

    def with_launcher_value(self, key: str, value: str) -> "Settings":
        """Return the settings with another value of a launcher's, as of SLURM_IMAGE."""
        return dataclasses.replace(self, launcher_values={**self.launcher_values, key: value})

    def values(self) -> dict[str, object]:
        """Every key's value, the keys of this class first."""
        return {key.name: self.value(key) for key in KEYS}

    def value(self, key: Key) -> object:
        for values in (self.component, self.launcher_values):
            if key.name in values:
                return values[key.name]
        return getattr(self, key.name.lower())


CORE_KEYS = list_keys(Settings)
COMPONENT_KEYS = tuple(key for component in COMPONENTS for key in component.keys)
KEYS = CORE_KEYS + LAUNCHER_KEYS + COMPONENT_KEYS
_BY_NAME = {key.name: key for key in KEYS}
NAMES = frozenset(_BY_NAME)


def load_settings(
    path: Path | None,
    environ: Mapping[str, str],
    overrides: Iterable[str] = (),
    *,
    with_dependencies: bool = False,
) -> Settings:
    """Return the settings. Flags override the environment, .env and defaults, in this order.

    `path` is None where no file is to be read. `overrides` are words of the command line, such as `VERSION=1.2`. Raises SettingsError for an
    unknown key or a bad value.
    """
    raw = {key.name: (str(key.default), "default") for key in KEYS}
    for entry in envfile.read_entries(path) if path else ():
        where = f"{path}:{entry.line}"
        raw[_find_key(where, entry.key).name] = (entry.value, where)
    raw |= {k.name: (environ[k.name], "environment") for k in KEYS if k.name in environ}
    for word in overrides:
        name, equals, value = word.partition("=")
        if not equals:
            raise SettingsError(f"--set {word!r} is not a setting", "Use --set KEY=value")
        raw[_find_key("--set", name).name] = (value, "command line")
    return _check_settings(raw, with_dependencies=with_dependencies)


def _find_key(where: str, name: str) -> Key:
    if name in _BY_NAME:
        return _BY_NAME[name]
    hint = did_you_mean(name.upper(), _BY_NAME) or "`invoke config` lists all keys"
    raise SettingsError(f"{where}: unknown key {name!r}", hint)


def _check_settings(raw: Mapping[str, tuple[str, str]], *, with_dependencies: bool) -> Settings:
    values = {name: parse_value(_BY_NAME[name], *raw_value) for name, raw_value in raw.items()}
    component = {key.name: values[key.name] for key in COMPONENT_KEYS}
    for needed in missing_requirements(component):
        if not with_dependencies:
            setting = f"{needed.key}={str(needed.value).lower()}"
            raise SettingsError(needed.reason, f"Set {setting}, or use --with-dependencies")
        component[needed.key] = needed.value
    core = {key.name.lower(): values[key.name] for key in CORE_KEYS}
    # expanduser: `REPORT_DIR=~/runs` in a file passes no shell.
    return Settings(
        **core | {"report_dir": Path(str(core["report_dir"])).expanduser()},
        component=component,
        launcher_values={key.name: values[key.name] for key in LAUNCHER_KEYS},
        sources={name: source for name, (_, source) in raw.items()},
    )


def strip_credentials(value: object) -> str:
    """Return a value without the user and password of a URL."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return redact.url(text)
