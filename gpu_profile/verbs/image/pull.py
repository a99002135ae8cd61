"""pull: download the image from its registry."""

from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.options.image import PullOptions
from gpu_profile.registry import push
from gpu_profile.verbs.image.lock import apply_version
from gpu_profile.verbs.image.registry_access import LayerProgress, parse_registry_setting


def pull(options: PullOptions) -> None:
    settings = apply_version(load_settings(options))
    if options.dry_run:
        print(f"docker pull {settings.image_ref}")
        return
    where = parse_registry_setting(settings) if settings.registry else None
    print(push.pull_image(settings.image_ref, where, show=LayerProgress()))
