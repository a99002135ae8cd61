"""render, image-size and sbom: what an image will hold, and what is in it."""

import sys

from gpu_profile import process, redact
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.options.image import ImageSizeOptions, RenderOptions, SbomOptions
from gpu_profile.cli.terminal import print_tables
from gpu_profile.engine import image_programs
from gpu_profile.image import auto, dockerfile
from gpu_profile.image import sbom as bill_of_materials
from gpu_profile.image.size import measure_size
from gpu_profile.lock import installed
from gpu_profile.verbs.image.lock import apply_lock_file


def render(options: RenderOptions) -> None:
    """Print the Dockerfile of the settings, without credentials."""
    decided = process.drive(auto.decide_settings(apply_lock_file(load_settings(options))))
    sys.stdout.write(redact.url(dockerfile.render_dockerfile(decided.settings)))


def image_size(options: ImageSizeOptions) -> None:
    """Print the image's size by layer and by file."""
    tables = process.drive(measure_size(str(load_settings(options).image_ref)))
    print_tables(tables, options.format)


def sbom(options: SbomOptions) -> None:
    """Print the SPDX document of the image."""
    name = str(load_settings(options).image_ref)
    identity = process.drive(image_programs.get_image_id(name))
    text = process.drive(image_programs.read_image_file(name, str(installed.PATH)))
    sys.stdout.write(bill_of_materials.render_spdx(text, name, identity))
