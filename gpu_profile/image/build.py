"""The `docker buildx build` command that makes the image from settings.

Nothing is run here.
"""

import hashlib
import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gpu_profile.command import ENGINE, Command, Steps, make_engine_command
from gpu_profile.components.requirements import SECRET
from gpu_profile.errors import SettingsError
from gpu_profile.image import dockerfile
from gpu_profile.image.auto import DECIDED, Decided
from gpu_profile.image.credentials import list_plain_proxies, list_secrets
from gpu_profile.image.dockerfile import local_sources
from gpu_profile.image.downloads import Downloads
from gpu_profile.settings.settings import Settings

CONTEXT = "Container-Root"
INPUTS = f"{dockerfile.LABEL_PREFIX}.inputs"
BASE = "org.opencontainers.image.base.digest"
_OUTPUTS = ("--push", "--output", "-o", "--load")


@dataclass(frozen=True, kw_only=True)
class BuildxOptions:
    """Options of a build.

    `root` is the repository, `base` the OCI layout of the base image if any, `apt_preferences` the
    text of a file with the versions of packages that the lock recorded.
    """

    root: Path
    base: Path | None = None
    plain: bool = False
    cache_from: str = ""
    cache_to: str = ""
    sbom: bool = False
    apt_preferences: str = ""


def inputs_hash(settings: Settings, root: Path) -> str:
    """Return a SHA-256 (64 hex digits) of the Dockerfile, the build options and all input files."""
    digest = hashlib.sha256(dockerfile.render_dockerfile(settings).encode())
    digest.update(settings.build_opts.encode())
    contexts = {CONTEXT: str(root / CONTEXT), **_list_contexts(settings)}
    for name, directory in sorted(contexts.items()):
        for line in _read_files(name, Path(directory)):
            digest.update(line)
    return digest.hexdigest()


def _read_files(context: str, directory: Path) -> Iterator[bytes]:
    """Yield name, executable bit and content of each file, sorted by name."""
    for path in sorted(directory.rglob("*")):
        if path.is_file() and not {"__pycache__", ".git"} & set(path.parts):
            name = path.relative_to(directory).as_posix()
            executable = bool(path.stat().st_mode & 0o111)
            yield f"\0{context}/{name}\0{executable}\0".encode()
            yield path.read_bytes()


def is_built(name: str, inputs: str, base_digest: str) -> Steps[bool]:
    """Return whether the engine's image of this name has the same inputs and the same base."""
    labels = " ".join(f'{{{{index .Config.Labels "{label}"}}}}' for label in (INPUTS, BASE))
    inspect_result = yield make_engine_command("image", "inspect", f"--format={labels}", name)
    return (
        inspect_result.returncode == 0
        and inspect_result.stdout.split() == f"{inputs} {base_digest}".split()
    )


def image_name(settings: Settings, inputs: str) -> str:
    """Return the image's full name. With VERSION=auto its tag begins the hash of its inputs."""
    tag = inputs[:16] if settings.version == "auto" else settings.version
    return f"{settings.image_ref.repository}:{tag}"


def make_build_command(decided: Decided, downloads: Downloads, options: BuildxOptions) -> Command:
    """Return the build command.

    The Dockerfile is its standard input; labels record the decisions.
    """
    settings = decided.settings
    inputs = inputs_hash(settings, options.root)
    secret_options, env = _list_secrets(settings, downloads, options.apt_preferences)
    proxies = list_plain_proxies(settings)
    contexts = _list_contexts(settings)
    if options.base:
        contexts[settings.base_image] = f"oci-layout://{options.base}"
    extra = shlex.split(settings.build_opts)
    load = [] if any(word.startswith(_OUTPUTS) for word in extra) else ["--load"]
    return Command(
        argv=(
            *(ENGINE, "buildx", "build", "--file=-"),
            f"--tag={image_name(settings, inputs)}",
            *(f"--label={name}={value}" for name, value in _make_labels(decided, inputs).items()),
            *_list_switches(options),
            *load,
            *secret_options,
            *(f"--build-context={n}={p}" for n, p in contexts.items()),
            *(f"--build-arg={name}" for name in proxies),
            *extra,
            str(options.root),
        ),
        stdin=dockerfile.render_dockerfile(settings),
        # BuildKit dates the image's history and its own files by it: same input, same bytes.
        env={**env, **proxies, "SOURCE_DATE_EPOCH": "0"},
        secrets=frozenset({*env, *proxies}),
    )


def _make_labels(decided: Decided, inputs: str) -> dict[str, str]:
    decisions = json.dumps(decided.decisions, sort_keys=True) if decided.decisions else ""
    labels = {INPUTS: inputs, BASE: decided.base_digest, DECIDED: decisions}
    return {name: value for name, value in labels.items() if value}


def _list_contexts(settings: Settings) -> dict[str, str]:
    """Return the local directories that components are compiled from, as build contexts."""
    sources = {name: str(Path(p).expanduser()) for name, p in local_sources(settings).items()}
    for name, path in sources.items():
        if not Path(path).is_dir():
            raise SettingsError(
                f"{name}: {path!r} is not a directory", "Give a checkout, repository or archive"
            )
    return sources


def _list_switches(options: BuildxOptions) -> tuple[str, ...]:
    chosen = {
        f"--progress={'plain' if options.plain else 'auto'}": True,
        "--provenance=false": not options.sbom,
        "--sbom=true": options.sbom,
        f"--cache-from={options.cache_from}": bool(options.cache_from),
        f"--cache-to={options.cache_to}": bool(options.cache_to),
    }
    return tuple(word for word, is_set in chosen.items() if is_set)


def _list_secrets(
    settings: Settings, downloads: Downloads, apt_preferences: str
) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return build secrets: certificates by file, others by variable, and nothing in argv.

    The apt preferences are one as well, so that a new lock of the same packages rebuilds no stage.
    """
    bundle = settings.ca_bundle or downloads.ca_bundle
    if settings.ca_bundle and not Path(settings.ca_bundle).is_file():
        raise SettingsError(
            f"CA_BUNDLE is {settings.ca_bundle!r}, which is not a file", "Give a PEM file's path"
        )
    words = [f"--secret=id=ca_bundle,src={bundle}"] if bundle and Path(bundle).is_file() else []
    env = {}
    texts = {"pip_conf": downloads.pip_conf, "apt_preferences": apt_preferences}
    present_texts = {name: text for name, text in texts.items() if text}
    for name, text in {**present_texts, **list_secrets(settings)}.items():
        words.append(f"--secret=id={name},env=GPU_PROFILE_{name.upper()}")
        env[f"GPU_PROFILE_{name.upper()}"] = text
    if requirements := str(settings.component["REQUIREMENTS"]):
        words.append(f"--secret=id={SECRET},src={Path(requirements).expanduser().absolute()}")
    return tuple(words), env
