"""sbom: print an image's bill of materials."""

import sys

from gpu_profile import process
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.options.image import SbomOptions
from gpu_profile.command import make_command
from gpu_profile.engine import container
from gpu_profile.image import sbom as bill_of_materials
from gpu_profile.lock import installed as manifest


def sbom(options: SbomOptions) -> None:
    """Print the SPDX document of the image."""
    name = str(load_settings(options).image_ref)
    look = make_command("docker", "image", "inspect", "--format={{.Id}}", name)
    identity = container.check_engine_result(
        process.run(look), f"looking for {name}"
    ).stdout.strip()
    read = make_command("docker", "run", "--rm", "--network=none", name, "cat", str(manifest.PATH))
    text = container.check_engine_result(
        process.run(read), f"reading the manifest of {name}"
    ).stdout
    sys.stdout.write(bill_of_materials.render_spdx(text, name, identity))
