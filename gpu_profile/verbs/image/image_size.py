"""image-size: the size of an image by component."""

from gpu_profile import process
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.options.image import ImageSizeOptions
from gpu_profile.cli.terminal import print_tables
from gpu_profile.image.size import measure_size


def image_size(options: ImageSizeOptions) -> None:
    tables = process.drive(measure_size(str(load_settings(options).image_ref)))
    print_tables(tables, options.format)
