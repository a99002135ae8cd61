"""The flags of render, build, image-size, sbom, lock, login, push and pull."""

from dataclasses import dataclass

from gpu_profile.cli.options.shared import DryRunOptions, FormatOptions, SettingsOptions, YesOptions
from gpu_profile.cli.verb import make_flag


@dataclass(frozen=True, kw_only=True)
class RenderOptions(SettingsOptions):
    pass


@dataclass(frozen=True, kw_only=True)
class BuildOptions(DryRunOptions, SettingsOptions):
    unlocked: bool = make_flag(False, "build without the lock file's checksums")
    requirements: str = make_flag(
        "", "requirements file of your program's packages", "REQUIREMENTS", kind="path"
    )
    rebuild_base: bool = make_flag(False, "make the embedded base anew")
    cache_from: str = make_flag("", "registry to take cached steps from")
    cache_to: str = make_flag("", "registry to write cached steps to")
    verbose: bool = make_flag(False, "show all that the build prints, not a line a step")
    sbom: bool = make_flag(False, "attach BuildKit's own bill of materials")


@dataclass(frozen=True, kw_only=True)
class ImageSizeOptions(FormatOptions, SettingsOptions):
    pass


@dataclass(frozen=True, kw_only=True)
class SbomOptions(SettingsOptions):
    pass


@dataclass(frozen=True, kw_only=True)
class LockOptions(SettingsOptions):
    check: bool = make_flag(False, "only report drift, offline")
    image: bool = make_flag(False, "with --check: compare the versions installed in the image too")


@dataclass(frozen=True, kw_only=True)
class LoginOptions(YesOptions, DryRunOptions, SettingsOptions):
    pass


@dataclass(frozen=True, kw_only=True)
class PushOptions(DryRunOptions, SettingsOptions):
    pass


@dataclass(frozen=True, kw_only=True)
class PullOptions(DryRunOptions, SettingsOptions):
    pass
