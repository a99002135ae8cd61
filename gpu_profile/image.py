"""Settings -> the `docker buildx build` that makes the image. Nothing here runs anything."""

import hashlib
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gpu_profile import dockerfile
from gpu_profile.command import Command
from gpu_profile.decide import DECIDED
from gpu_profile.dockerfile import local_sources
from gpu_profile.errors import SettingsError
from gpu_profile.machine import Downloads
from gpu_profile.settings import Settings

CONTEXT = "Container-Root"
INPUTS = f"{dockerfile.LABEL_PREFIX}.inputs"
_PROXIES = ("http_proxy", "https_proxy", "no_proxy")
_OUTPUTS = ("--push", "--output", "-o", "--load")


@dataclass(frozen=True, kw_only=True)
class BuildOptions:
    """`file` is the rendered Dockerfile's path and `root` the repository's, the context."""

    root: Path
    file: Path
    plain: bool = False
    cache_from: str = ""
    cache_to: str = ""
    sbom: bool = False
    no_cache: bool = False


def inputs_hash(text: str, root: Path) -> str:
    """64 hex digits over the Dockerfile and every file that goes into the image or its build."""
    digest = hashlib.sha256(text.encode())
    for path in sorted((root / CONTEXT).rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            name = path.relative_to(root).as_posix()
            executable = bool(path.stat().st_mode & 0o111)
            digest.update(f"\0{name}\0{executable}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def image_name(settings: Settings, inputs: str) -> str:
    """The image's full name; with VERSION=auto its tag is the start of the inputs' hash."""
    address = f"{settings.registry}/{settings.image}" if settings.registry else settings.image
    return f"{address}:{inputs[:16] if settings.version == 'auto' else settings.version}"


def build(
    settings: Settings,
    made: Mapping[str, str],
    downloads: Downloads,
    options: BuildOptions,
) -> Command:
    """The build. `made` are the decisions to record (decide.Decided.made)."""
    inputs = inputs_hash(dockerfile.render(settings), options.root)
    secret_options, env = _secrets(settings, downloads)
    proxies = {name: getattr(settings, name) for name in _PROXIES if getattr(settings, name)}
    extra = shlex.split(settings.build_opts)
    return Command(
        argv=(
            *("docker", "buildx", "build", f"--file={options.file}"),
            *(f"--tag={image_name(settings, inputs)}", f"--label={INPUTS}={inputs}"),
            *(() if not made else (f"--label={DECIDED}={json.dumps(made, sort_keys=True)}",)),
            *_switches(options),
            *(() if any(word.startswith(_OUTPUTS) for word in extra) else ("--load",)),
            *secret_options,
            *(f"--build-context={n}={p}" for n, p in _contexts(settings).items()),
            *(f"--build-arg={name}" for name in proxies),
            *extra,
            str(options.root),
        ),
        env={**env, **proxies, "SOURCE_DATE_EPOCH": "0"},
        secrets=frozenset({*env, *proxies}),
    )


def _contexts(settings: Settings) -> dict[str, str]:
    """Checkouts that components are compiled from."""
    found = {name: str(Path(p).expanduser()) for name, p in local_sources(settings).items()}
    for name, path in found.items():
        if not Path(path).is_dir():
            raise SettingsError(
                f"{name}: {path!r} is no directory", "Give a checkout, a repository or an archive"
            )
    return found


def _switches(options: BuildOptions) -> tuple[str, ...]:
    chosen = {
        f"--progress={'plain' if options.plain else 'auto'}": True,
        "--provenance=false": not options.sbom,
        "--sbom=true": options.sbom,
        f"--cache-from={options.cache_from}": bool(options.cache_from),
        f"--cache-to={options.cache_to}": bool(options.cache_to),
        "--no-cache": options.no_cache,
    }
    return tuple(word for word, wanted in chosen.items() if wanted)


def _secrets(settings: Settings, downloads: Downloads) -> tuple[tuple[str, ...], dict[str, str]]:
    """Certificates by file, pip's configuration by an environment variable: never by argv."""
    bundle = settings.ca_bundle or downloads.ca_bundle
    if settings.ca_bundle and not Path(settings.ca_bundle).is_file():
        raise SettingsError(
            f"CA_BUNDLE is {settings.ca_bundle!r}, which is no file", "Give the path of a PEM file"
        )
    words = [f"--secret=id=ca_bundle,src={bundle}"] if bundle and Path(bundle).is_file() else []
    env = {}
    if downloads.pip_conf:
        words.append("--secret=id=pip_conf,env=GPU_PROFILE_PIP_CONF")
        env["GPU_PROFILE_PIP_CONF"] = downloads.pip_conf
    return tuple(words), env
