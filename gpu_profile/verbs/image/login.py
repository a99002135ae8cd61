"""login: log the docker CLI in to the registry."""

from gpu_profile import process
from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.options.image import LoginOptions
from gpu_profile.cli.terminal import ask_user, run_or_raise
from gpu_profile.errors import RegistryError, SettingsError
from gpu_profile.registry import ecr
from gpu_profile.registry import login as logins
from gpu_profile.verbs.image.registry_access import docker_config, parse_registry_setting


def login(options: LoginOptions) -> None:
    """Log the docker CLI in, after showing what will be written and asking."""
    settings = load_settings(options)
    where = parse_registry_setting(settings)
    config = docker_config(options.environ)
    auth = None if options.dry_run else ecr.fetch_authorization(where)
    plan = logins.plan_login(where, auth, config, process.find_program)
    print(f"This {plan.says}.")
    if options.dry_run:
        return
    if plan.writes_secret and not ask_user("Go on?", yes=options.yes):
        raise SettingsError("nothing was written", "Use --yes where there is no terminal")
    if plan.config is not None:
        logins.write_config(config, plan.config)
    elif plan.command is not None and plan.command.stdin:
        result = process.run(plan.command)
        if result.returncode:
            raise RegistryError(f"docker login: {result.said}", "See REGISTRY")
    elif plan.command is not None:
        run_or_raise(plan.command, RegistryError)
