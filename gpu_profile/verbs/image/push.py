"""push: upload the image and record its digest."""

from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.options.image import PushOptions
from gpu_profile.cli.paths import records_file
from gpu_profile.registry import push as registry_push
from gpu_profile.verbs.image.lock import apply_version
from gpu_profile.verbs.image.registry_access import LayerProgress, parse_registry_setting


def push(options: PushOptions) -> None:
    """Push the image and record its digest, which launchers of other machines run."""
    settings_of_user = load_settings(options)
    where = parse_registry_setting(settings_of_user)
    settings = apply_version(settings_of_user)
    if options.dry_run:
        print(f"docker push {settings.image_ref}  # credentials of {where.host} for this call only")
        return
    pushed = registry_push.publish_image(
        settings.image_ref,
        where,
        records_file(),
        show=LayerProgress(),
        upload=registry_push.Upload(
            immutable=settings.ecr_immutable_tags,
            scan=settings.ecr_scan_on_push,
            named_by_inputs=settings_of_user.version == "auto",
        ),
    )
    print(pushed)
