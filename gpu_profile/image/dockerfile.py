"""Render the Dockerfile of an image. The same settings give the same bytes.

Each component is a stage on the same base: BuildKit builds stages in parallel, and again only if
their script or settings changed. A stage leaves its files in /out.
"""

import json
from collections.abc import Iterator, Mapping, Sequence

from gpu_profile.components.component import Component, list_arguments
from gpu_profile.components.table import COMPONENTS, list_enabled
from gpu_profile.declared.key import Values
from gpu_profile.engine.container import IMAGE_LABEL
from gpu_profile.errors import SettingsError
from gpu_profile.image.credentials import collect_values, list_secrets
from gpu_profile.redact import split_url
from gpu_profile.settings.settings import Settings

# -g: a stop signal reaches the whole process group, such as the children of a shell.
ENTRYPOINT = ("/usr/bin/tini", "-g", "--")
COMMAND = ("/startup.sh",)
LABEL_PREFIX = IMAGE_LABEL
LAYERS = f"{LABEL_PREFIX}.layers"
"""The label that names the components in the order of the image's layers, for image-size."""
_ROOT = "Container-Root"
AGENT = "/opt/gpu-profile/agent"
"""The place of Container-Root/agent in the image. `/profile.py` runs its files."""


def render_dockerfile(settings: Settings) -> str:
    """Return the Dockerfile. Settings must hold no `auto` (see auto.decide_settings)."""
    _refuse_undecided(settings)
    chosen = list_enabled(settings.component)
    secrets = tuple(list_secrets(settings))
    blocks = [_format_base(settings, secrets)]
    blocks += [
        _format_stage(component, chosen, collect_values(settings), secrets) for component in chosen
    ]
    blocks.append(_format_final(settings, chosen))
    return "\n\n".join("\n".join(block) for block in blocks) + "\n"


def _refuse_undecided(settings: Settings) -> None:
    undecided = {"BASE_IMAGE": settings.base_image} | {
        key.name: settings.component[key.name] for c in COMPONENTS for key in c.keys
    }
    for name, value in undecided.items():
        if value == "auto":
            raise SettingsError(f"{name}=auto is not decided", "Set it to what you want rendered")


def quote_word(value: str) -> str:
    """Return a word of ENV, ARG or LABEL that Docker reads back unchanged."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$")
    return f'"{escaped}"'


def _format_assignments(instruction: str, pairs: Mapping[str, str]) -> list[str]:
    return [f"{instruction} {name}={quote_word(value)}" for name, value in pairs.items()]


def local_sources(settings: Settings) -> dict[str, str]:
    """Return local directories that components are compiled from, by the name of their mount."""
    sources = {c.name: source_of(c, settings.component) for c in list_enabled(settings.component)}
    return {f"source-{name}": path for name, path in sources.items() if path}


def source_of(component: Component, component_values: Values) -> str:
    """Return the component's _URL if it is a local path, otherwise ""."""
    url = str(component_values.get(f"{component.name.upper().replace('-', '_')}_URL", ""))
    return "" if not url.startswith(("/", "./", "../", "~")) else url


def _format_run(
    stage: str,
    script: str,
    argv: tuple[str, ...],
    secrets: tuple[str, ...],
    *,
    source: bool = False,
) -> list[str]:
    """Return a RUN instruction.

    Each stage has its own caches, so that no stage waits for a lock.
    """
    mounts = [f"type=bind,from=source-{stage},target=/mnt/source"] if source else []
    mounts += [
        f"type=bind,source={_ROOT}/lib/stage,target=/mnt/stage",
        f"type=bind,source={_ROOT}/setup.d/{script},target=/mnt/setup.sh",
        # apt needs its caches for itself:
        # https://docs.docker.com/reference/dockerfile/#run---mounttypecache
        f"type=cache,id=gpu-profile-{stage}-apt,target=/var/cache/apt,sharing=locked",
        f"type=cache,id=gpu-profile-{stage}-lists,target=/var/lib/apt/lists,sharing=locked",
        f"type=cache,id=gpu-profile-{stage}-pip,target=/root/.cache/pip,sharing=locked",
        "type=secret,id=ca_bundle",
        "type=secret,id=pip_conf",
        "type=secret,id=apt_preferences",
        *(f"type=secret,id={secret}" for secret in secrets),
        # What installers leave in /tmp is in no layer.
        "type=tmpfs,target=/tmp",
    ]
    lines = [f"    --mount={mount} \\" for mount in mounts]
    return ["RUN \\", *lines, f"    {json.dumps(list(argv))}"]


def _format_base(settings: Settings, secrets: tuple[str, ...]) -> list[str]:
    run = _format_run("base", "00-base.sh", ("bash", "/mnt/setup.sh"), secrets)
    return [f"FROM {settings.base_image} AS base", *run]


def _format_stage(
    component: Component,
    chosen: tuple[Component, ...],
    component_values: Values,
    secrets: tuple[str, ...],
) -> list[str]:
    present = {other.name for other in chosen}
    script_arguments = list_arguments(component, component_values)
    source = source_of(component, component_values)
    return [
        f"FROM base AS {component.name}",
        *(f"COPY --from={name} /out/ /" for name in component.needs if name in present),
        *_format_assignments(
            "ARG",
            {
                name: "local" if value and value == source else split_url(value).plain
                for name, value in script_arguments.items()
            },
        ),
        *_format_run(
            component.name,
            component.script,
            ("python3", "/mnt/stage/stage.py", component.name, "/mnt/setup.sh"),
            (*secrets, *component.secrets),
            source=bool(source),
        ),
    ]


def _format_final(settings: Settings, chosen: tuple[Component, ...]) -> list[str]:
    variables = collect_environment(chosen, collect_values(settings))
    return [
        "FROM base AS image",
        # --link: a layer of its own, which stays as it is when one below it changes.
        *(f"COPY --link --from={component.name} /out/ /" for component in _sort_by_size(chosen)),
        *_format_environment(variables),
        *_format_merge(chosen, tuple(variables)),
        *_format_assignments("LABEL", collect_labels(settings, chosen)),
        f"COPY --link {_ROOT}/test.d/ /test.d/",
        f"COPY --link {_ROOT}/agent/ {AGENT}/",
        f"COPY --link {_ROOT}/samples/ {_ROOT}/profile.py {_ROOT}/startup.sh /",
        f"ENTRYPOINT {json.dumps(list(ENTRYPOINT))}",
        f"CMD {json.dumps(list(COMMAND))}",
    ]


def _sort_by_size(chosen: tuple[Component, ...]) -> list[Component]:
    """Return the components with the largest first, which is torch.

    An engine without BuildKit's merge repeats all copies that follow a changed one.
    """
    return sorted(chosen, key=lambda component: (not component.copied_first, component.number))


def _format_environment(variables: Mapping[str, str]) -> list[str]:
    """Return the ENV lines. Our PATH stands before that of the base image."""
    others = {name: value for name, value in variables.items() if name != "PATH"}
    path = [f'ENV PATH="{variables["PATH"]}:${{PATH}}"'] if "PATH" in variables else []
    return [*_format_assignments("ENV", others), *path]


def _format_merge(chosen: tuple[Component, ...], variables: tuple[str, ...]) -> Iterator[str]:
    """Return the RUN that merges the stages. `variables` are set for SSH sessions too.

    sshd's sessions do not inherit the container's environment. The commands print the versions
    for the manifest, also of programs that the base image brings.
    """
    versions = [
        version
        for component in COMPONENTS
        for version in component.installed_versions
        if component in chosen or version.in_bases
    ]
    lines = [(f"--version={version.name}={version.command}",) for version in versions]
    yield "RUN \\"
    yield f"    --mount=type=bind,source={_ROOT}/lib,target=/mnt \\"
    yield f"    {_format_words(['python3', '/mnt/final/merge.py'], *lines, variables)}"


def _format_words(*lines: Sequence[str]) -> str:
    """Return a JSON array of all words, with a line for each sequence that is not empty."""
    texts = [json.dumps(list(line))[1:-1] for line in lines if line]
    return "[" + ", \\\n     ".join(texts) + "]"


def collect_environment(chosen: tuple[Component, ...], component_values: Values) -> dict[str, str]:
    """Return the image's environment. Paths of several components are joined in their order."""
    joined: dict[str, str] = {}
    for component in chosen:
        for name, value in component.env(component_values).items():
            separator = ":" if name.endswith("PATH") and name in joined else ""
            joined[name] = f"{joined.get(name, '')}{separator}{value}" if separator else value
    return dict(sorted(joined.items()))


def collect_labels(settings: Settings, chosen: tuple[Component, ...]) -> dict[str, str]:
    """Return the image's labels. The build adds the hash of its inputs."""
    component_labels = {
        f"{LABEL_PREFIX}.{name.lower().replace('_', '-')}": value
        for component in chosen
        for name, value in list_arguments(component, collect_values(settings)).items()
        if value and (name.endswith(("_VERSION", "_SOURCE")) or name == component.toggle)
    }
    return {
        "org.opencontainers.image.title": settings.image,
        "org.opencontainers.image.description": "GPU jobs and the profiler to look into them",
        "org.opencontainers.image.base.name": settings.base_image,
        LAYERS: " ".join(component.name for component in _sort_by_size(chosen)),
        **dict(sorted(component_labels.items())),
    }
