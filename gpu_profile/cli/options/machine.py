"""The flags of quickstart, doctor, counters, config, init, check and the verbs of k8s."""

from dataclasses import dataclass

from gpu_profile.cli.options.shared import (
    DryRunOptions,
    FormatOptions,
    OutputOptions,
    SetOptions,
    SettingsOptions,
    WhereOptions,
    YesOptions,
)
from gpu_profile.cli.verb import VerbOptions, make_flag


@dataclass(frozen=True, kw_only=True)
class QuickstartOptions(YesOptions, SettingsOptions):
    verbose: bool = make_flag(False, "show all that the build prints, not a line a step")


@dataclass(frozen=True, kw_only=True)
class DoctorOptions(YesOptions, FormatOptions, WhereOptions):
    fix: bool = make_flag(False, "install or start what this machine lacks")


@dataclass(frozen=True, kw_only=True)
class CountersOptions(YesOptions, DryRunOptions, WhereOptions):
    allow: bool = make_flag(False, "allow GPU counters to every user")
    restrict: bool = make_flag(False, "allow GPU counters to root only")


@dataclass(frozen=True, kw_only=True)
class ConfigOptions(SettingsOptions):
    format: str = make_flag(
        "text",
        "text, csv, json, or env for a fresh .env",
        choices=("text", "csv", "json", "env"),
    )
    write: bool = make_flag(False, "add settings that .env lacks, and those of --set")


@dataclass(frozen=True, kw_only=True)
class InitOptions(OutputOptions):
    user: bool = make_flag(False, "the user's own, for all directories; default: .env here")


@dataclass(frozen=True, kw_only=True)
class CheckOptions(VerbOptions):
    live: bool = make_flag(False, "also tests/image and tests/live: those that can run here")
    require: tuple[str, ...] = make_flag((), "fail where this part is missing; may be given again")


@dataclass(frozen=True, kw_only=True)
class _ClusterOptions(DryRunOptions, SetOptions):
    context: str = make_flag("", "Kubernetes: context", "KUBE_CONTEXT")


@dataclass(frozen=True, kw_only=True)
class InstallOperatorOptions(_ClusterOptions):
    operator: str = make_flag("mpi", "mpi, training or trainer")
    from_: str = make_flag("", "manifest or kustomization to install, a path or a URL")
    replace_mpijob_v1: bool = make_flag(False, "take MPIJob v1 from the training operator")


@dataclass(frozen=True, kw_only=True)
class InjectorOptions(FormatOptions, _ClusterOptions):
    action: str = make_flag("", "install, status, on, off or uninstall", positional=True)
    generation: str = make_flag("devtools", "devtools (sidecar injector) or operator (Nsight)")
    chart: str = make_flag("", "install: chart, a path or a URL")
    sha256: str = make_flag("", "install: the chart's checksum, in place of gpu-profile.lock's")
    unlocked: bool = make_flag(False, "install: take a chart without a checksum")
    match: str = make_flag("", "install: pattern of command lines to profile")
    delay: float = make_flag(0.0, "install: seconds before recording")
    duration: float = make_flag(0.0, "install: seconds of recording; the job goes on")
    nsys_args: str = make_flag("", "install: nsys' options, instead of ours")
    values: str = make_flag("", "install: a file of helm values, over ours")
    image: str = make_flag("", "install: image of NVIDIA's tools (a mirror of it)")
    release_namespace: str = make_flag("nvidia-injector", "namespace of the injector itself")
    namespace: str = make_flag("", "on, off: namespace to switch", "KUBE_NAMESPACE")
