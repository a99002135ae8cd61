"""render: print the Dockerfile of the settings."""

import sys

from gpu_profile import process, redact
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.options.image import RenderOptions
from gpu_profile.image import auto, dockerfile
from gpu_profile.verbs.image.lock import apply_lock_file


def render(options: RenderOptions) -> None:
    decided = process.drive(auto.decide_settings(apply_lock_file(load_settings(options))))
    sys.stdout.write(redact.url(dockerfile.render_dockerfile(decided.settings)))
