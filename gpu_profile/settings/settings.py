"""Settings, the values of .env, environment and command line, checked and frozen."""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from gpu_profile import redact
from gpu_profile.components.key import Key
from gpu_profile.components.kinds import KeyKind
from gpu_profile.components.table import COMPONENTS, missing_requirements
from gpu_profile.errors import SettingsError, did_you_mean
from gpu_profile.image_ref import ImageRef
from gpu_profile.job import Annotate, LauncherName
from gpu_profile.launchers.table import LAUNCHER_KEYS, LAUNCHERS
from gpu_profile.settings import envfile
from gpu_profile.settings.parse import parse_value

_LOWER = {"http_proxy", "https_proxy", "no_proxy"}


def _make_key(
    default: object, doc: str, kind: KeyKind | None = None, choices: tuple[str, ...] = ()
) -> Any:  # noqa: ANN401 - dataclasses.field's own type
    return field(default=default, metadata={"doc": doc, "kind": kind, "choices": choices})


def _make_words_key(doc: str) -> Any:  # noqa: ANN401 - as above
    """Return a field for options that are quoted as in a shell."""
    return field(default="", metadata={"doc": doc, "kind": "words", "choices": ()})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings. A field is named like its key in .env, in small letters."""

    registry: str = _make_key(
        "", "Registry to push to, as in 123456789012.dkr.ecr.us-west-2.amazonaws.com", "registry"
    )
    image: str = _make_key("gpu-profile", "The image's name, without registry and tag", "image")
    version: str = _make_key(
        "latest", "The image's tag; auto is a hash of all that goes into it", "tag"
    )
    aws_region: str = _make_key(
        "", "Region that an ECR registry must be in; empty is what REGISTRY says", "region"
    )
    ecr_registry: str = _make_key(
        "",
        "The ECR registry behind a REGISTRY of another name (a proxy, a private endpoint)",
        "registry",
    )
    ecr_immutable_tags: bool = _make_key(
        True, "A repository that push creates refuses to move a tag"
    )
    ecr_scan_on_push: bool = _make_key(
        True, "A repository that push creates scans what it is given"
    )

    base_image: str = _make_key(
        "auto",
        "Debian or Ubuntu image to build on, embedded for a base made here, or auto: NVIDIA's CUDA image where its registry answers, otherwise embedded",
        "address",
    )
    cuda_archs: str = _make_key(
        "80,90,100",
        "GPU architectures to compile for: 80 A100, 90 H100 and H200, 100 B200",
        "archs",
    )
    ca_bundle: str = _make_key(
        "", "Certificates that downloads in the build need (a file); never in the image", "path"
    )
    build_opts: str = _make_words_key("More options for `docker buildx build`")
    http_proxy: str = _make_key(
        "", "Proxy of the build's downloads; not kept in the image", "proxy"
    )
    https_proxy: str = _make_key("", "The same for HTTPS", "proxy")
    no_proxy: str = _make_key("", "Hosts reached without it", "hosts")

    container: str = _make_key(
        "gpu-profile", "Name of the container that run, exec, logs, status and stop mean", "name"
    )
    port_map: str = _make_key("", "Ports of that container, as in -p 8080:8080", "ports")
    vol_map: str = _make_key("", "Volumes of that container, as in -v /data:/data", "volumes")
    network: str = _make_key(
        "", "Network of containers: bridge, host, none or one of your own", "name"
    )
    run_opts: str = _make_words_key("More options for `docker run`")
    shm_size: str = _make_key(
        "1g", "Shared memory of containers; data loaders and NCCL need it", "size"
    )
    report_dir: Path = _make_key(Path("/tmp"), "Where runs and their reports are kept", "path")
    unpack_limit_gb: str = _make_key(
        "16", "Most gigabytes that a packed report (.gz) may unpack to", "count"
    )
    compare_spread: str = _make_key(
        "3%",
        "What runs of one program differ by, where compare has too few to measure it",
        "percent",
    )

    annotate: Annotate = _make_key(
        "none", "What profile marks in a PyTorch program: steps, also its modules, also operators"
    )
    launcher: LauncherName = _make_key(
        "docker", "Where profile and test run when --on does not say it", "choice", tuple(LAUNCHERS)
    )
    nsys: str = _make_key("", "Path of the nsys to use on hosts; empty finds the newest", "path")
    ssh_host: str = _make_key(
        "", "user@address of a remote GPU host, or its name in ~/.ssh/config", "login"
    )
    ssh_workdir: str = _make_key(
        "", "Directory there that jobs run in; empty is home, or SSH_SYNC's copy", "directory"
    )
    ssh_sync: str = _make_key(
        "", "Directory here to copy to SSH_WORKDIR (or the run) before it runs", "directory"
    )
    ssh_dir: str = _make_key(".gpu-profile", "Directory there for runs and their reports", "path")
    ssh_args: str = _make_words_key("More options for ssh, as in -p 2222 -J user@bastion")
    slurm_partition: str = _make_key("", "Slurm partition", "names")
    slurm_account: str = _make_key("", "Slurm account", "names")
    slurm_time: str = _make_key("00:30:00", "Slurm time limit", "slurm-time")
    slurm_modules: str = _make_key("", "Modules to load in the job, separated by spaces", "names")
    slurm_image: str = _make_key(
        "", "Container image of Slurm jobs: an address, or a .sqsh or .sif file", "address"
    )
    slurm_container: Literal["pyxis", "apptainer"] = _make_key(
        "pyxis", "What runs SLURM_IMAGE in the cluster"
    )
    slurm_torchrun: bool = _make_key(False, "One task a node with torchrun, not one task a GPU")
    slurm_args: str = _make_words_key("More options for sbatch")
    slurm_login: str = _make_key(
        "", "user@address of a log-in node; empty runs Slurm's commands here", "login"
    )
    slurm_workdir: str = _make_key(
        "", "Directory that jobs run in; empty is where sbatch is run", "directory"
    )
    slurm_dir: str = _make_key(
        "", "Directory that the nodes share; empty is REPORT_DIR", "absolute-path"
    )
    kube_context: str = _make_key("", "Context of kubectl; empty is its current one", "names")
    kube_namespace: str = _make_key("", "Namespace of jobs; empty is the context's", "label")
    kube_instance: str = _make_key(
        "",
        "EC2 instance type, as in p5.48xlarge: GPUs, EFA, hugepages and memory follow",
        "instance",
    )
    kube_queue: str = _make_key("", "Kueue's local queue", "label")
    kube_pvc: str = _make_key(
        "", "Claim for the reports, as in NAME:/path; empty fetches them from the pods", "claim"
    )
    kube_node_selector: str = _make_key("", "key=value,… of the nodes to use", "selector")
    kube_tolerations: str = _make_key(
        "", "key[=value][:effect],… to tolerate beside the GPU's and EFA's", "tolerations"
    )
    kube_affinity: str = _make_key("", "Affinity of the pods, as JSON", "json")
    kube_priority_class: str = _make_key("", "PriorityClass of the pods", "label")
    kube_service_account: str = _make_key("", "ServiceAccount of the pods", "label")
    kube_run_as_user: str = _make_key(
        "auto",
        "User id of the pods; 0 is the image's own user, auto is 1000 in the image of IMAGE",
        "user",
    )
    kube_injector: Literal["none", "devtools", "operator"] = _make_key(
        "none", "NVIDIA's injector that profiles PyTorchJob and TrainJob pods, not the image's nsys"
    )
    kube_wait: str = _make_key("600", "Seconds a job may take to get its pods running", "seconds")
    kube_hold: str = _make_key(
        "3600", "Seconds that ended PyTorchJob and TrainJob pods keep their reports", "seconds"
    )

    component: Mapping[str, str | bool] = field(default_factory=dict)
    """The components' keys and values."""
    launcher_values: Mapping[str, str | bool] = field(default_factory=dict)
    """The keys of launchers' rows and their values: `{"TOY_SHELL": "sh"}`."""
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Where each key's value came from."""

    @property
    def image_ref(self) -> ImageRef:
        address = f"{self.registry}/{self.image}" if self.registry else self.image
        return ImageRef.parse(f"{address}:{self.version}")

    def with_image(self, address: str) -> "Settings":
        """Return the settings with this image, such as `team/app:1.2`, in place of IMAGE."""
        image = ImageRef.parse(address)
        return dataclasses.replace(
            self, registry=image.registry, image=image.name, version=image.tag or "latest"
        )

    def values(self) -> dict[str, object]:
        """Every key's value, the keys of this class first."""
        return {key.name: self.value(key) for key in KEYS}

    def value(self, key: Key) -> object:
        for values in (self.component, self.launcher_values):
            if key.name in values:
                return values[key.name]
        return getattr(self, key.name.lower())


def _core_keys() -> tuple[Key, ...]:
    return tuple(
        Key(
            name=f.name if f.name in _LOWER else f.name.upper(),
            kind=f.metadata.get("kind") or _get_kind(f.type),
            default=f.default if isinstance(f.default, bool) else str(f.default),
            choices=get_args(f.type) if get_origin(f.type) is Literal else f.metadata["choices"],
            doc=f.metadata["doc"],
        )
        for f in dataclasses.fields(Settings)
        if "doc" in f.metadata
    )


def _get_kind(of: object) -> KeyKind:
    return "bool" if of is bool else "choice" if get_origin(of) is Literal else "str"


CORE_KEYS = _core_keys()
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
            raise SettingsError(f"--set {word!r} is no setting", "Use --set KEY=value")
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
