"""Commands that run a program of an image, or look at an image of the local engine."""

from collections.abc import Sequence

from gpu_profile.command import ENGINE, Command, Steps, make_command, make_engine_command
from gpu_profile.declared.image_ref import ImageRef
from gpu_profile.engine import container, engine_answers
from gpu_profile.job import Mount
from gpu_profile.nsys.recorder import AGENT, make_old_image_error

# test(1) has 1; the engine's own failures are 125 to 127:
# https://docs.docker.com/engine/containers/run/#exit-status
_ABSENT = 1


def make_program_words(image: ImageRef, mounts: Sequence[Mount], *argv: str) -> tuple[str, ...]:
    """Return the words that run one program of the image, with mounts and no network."""
    return (
        *(ENGINE, "run", "--rm", "--pull=never", "--network=none"),
        *(*map(container.mount_option, mounts), str(image), *argv),
    )


def ask_server_version() -> Command:
    return make_engine_command("version", "--format={{.Server.Version}}")


def get_image_id(image: str) -> Steps[str]:
    """Return the image's id, such as `sha256:0f3c…`. Raises ToolError if there is no image."""
    inspect_result = yield make_engine_command("image", "inspect", "--format={{.Id}}", image)
    return engine_answers.check_engine_result(inspect_result, f"looking for {image}").stdout.strip()


def read_image_file(image: str, path: str) -> Steps[str]:
    """Return the text of a file in the image, such as its manifest."""
    read = make_engine_command("run", "--rm", "--network=none", image, "cat", path)
    return engine_answers.check_engine_result(
        (yield read), f"reading the manifest of {image}"
    ).stdout


def require_armable(image: ImageRef) -> Steps[None]:
    """Raise SettingsError for an image of ours that is older than recording on demand."""
    words = ("run", "--rm", "--pull=never", "--network=none", "--entrypoint=test")
    looked = yield make_engine_command(*words, str(image), "-e", AGENT)
    if looked.returncode == _ABSENT:
        raise make_old_image_error(image)


def count_gpus() -> Steps[int]:
    """Return this machine's number of GPUs, or 0 if the engine has no `nvidia` runtime."""
    info = yield make_engine_command("info", "--format={{json .Runtimes}}")
    if '"nvidia"' not in engine_answers.check_engine_result(info, "asking the engine").stdout:
        return 0
    listed = yield make_command("nvidia-smi", "--list-gpus")
    return listed.stdout.count("UUID") if listed.returncode == 0 else 0
