"""sbom: print an image's bill of materials."""

import sys

from gpu_profile import process
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.options.image import SbomOptions
from gpu_profile.engine import image_programs
from gpu_profile.image import sbom as bill_of_materials
from gpu_profile.lock import installed


def sbom(options: SbomOptions) -> None:
    """Print the SPDX document of the image."""
    name = str(load_settings(options).image_ref)
    identity = process.drive(image_programs.get_image_id(name))
    text = process.drive(image_programs.read_image_file(name, str(installed.PATH)))
    sys.stdout.write(bill_of_materials.render_spdx(text, name, identity))
