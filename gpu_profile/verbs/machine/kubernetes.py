"""k8s.install-operator and k8s.injector: what a cluster needs."""

from pathlib import Path

from gpu_profile import process
from gpu_profile.cli.flags import load_settings, split_words
from gpu_profile.cli.options.machine import InjectorOptions, InstallOperatorOptions
from gpu_profile.cli.options.shared import DryRunOptions
from gpu_profile.cli.terminal import show_commands
from gpu_profile.command import Steps
from gpu_profile.declared.kubernetes_settings import KubernetesSettings
from gpu_profile.errors import SettingsError
from gpu_profile.kubernetes import injector as injectors
from gpu_profile.kubernetes import operators
from gpu_profile.kubernetes.injector import Injection
from gpu_profile.kubernetes.injector_charts import Generation, find_generation
from gpu_profile.kubernetes.kubectl import KubernetesCluster
from gpu_profile.lock.charts import pinned_chart
from gpu_profile.lock.file import NAME, read_lock
from gpu_profile.settings.settings import Settings
from gpu_profile.verbs.machine.host import show_checks

_ACTIONS = ("install", "status", "on", "off", "uninstall")


def run_steps(steps: Steps[str], options: DryRunOptions) -> None:
    """Run the steps and print their answer, or print the commands with --dry-run."""
    if options.dry_run:
        show_commands(process.plan(steps))
    else:
        print(process.drive(steps))


def install_operator(options: InstallOperatorOptions) -> None:
    """Install an operator of multi-node jobs into the cluster, or print how with --dry-run."""
    settings = load_settings(options)
    new_operator = operators.find_operator(options.operator)
    replace = options.replace_mpijob_v1
    cluster = KubernetesCluster(context=settings.of(KubernetesSettings).context)
    run_steps(
        operators.install_operator(cluster, new_operator, options.from_, replace_v1=replace),
        options,
    )


def injector(options: InjectorOptions) -> None:
    """Run install or uninstall (the chart), on or off (a namespace's label), or status."""
    settings = load_settings(options)
    action = options.action
    if action not in _ACTIONS:
        raise SettingsError(f"k8s.injector {action!r}", f"Use one of {', '.join(_ACTIONS)}")
    kind = find_generation(options.generation)
    cluster = KubernetesCluster(
        context=settings.of(KubernetesSettings).context, namespace=options.release_namespace
    )
    if action == "status":
        show_checks(process.drive(injectors.check_injector(cluster, kind)), options.format)
        return
    run_steps(_run_action(action, cluster, kind, settings, options), options)


def _run_action(
    action: str,
    cluster: KubernetesCluster,
    kind: Generation,
    settings: Settings,
    options: InjectorOptions,
) -> Steps[str]:
    if action == "install":
        return injectors.install_chart(
            cluster,
            kind,
            options.chart,
            _parse_injection(options, settings),
            sha256=options.sha256 or pinned_chart(read_lock(Path(NAME)), kind, options.chart),
            unlocked=options.unlocked,
        )
    if action == "uninstall":
        return injectors.remove_chart(cluster, kind)
    namespace = settings.of(KubernetesSettings).namespace
    if not namespace:
        raise SettingsError(f"k8s.injector {action} needs a namespace", "Say --namespace NAME")
    return injectors.set_namespace_label(cluster, kind, namespace, on=action == "on")


def _parse_injection(options: InjectorOptions, settings: Settings) -> Injection:
    match = options.match or (injectors.match_of(options.words) if options.words else "")
    if not match:
        raise SettingsError(
            "no process to inject into", "Say --match PATTERN, or the job's command after --"
        )
    values_path = options.values
    return Injection(
        match=match,
        options=split_words("--nsys-args", options.nsys_args) or injectors.LIGHT,
        name=settings.of(KubernetesSettings).injector_name,
        delay_s=options.delay,
        duration_s=options.duration,
        image=options.image,
        values=injectors.parse_values(_read_text(Path(values_path))) if values_path else {},
    )


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}", "Name a file of helm values") from error
