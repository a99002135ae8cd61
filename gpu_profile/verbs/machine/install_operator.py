"""k8s.install-operator: install one of Kubeflow's operators."""

from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.options.machine import InstallOperatorOptions
from gpu_profile.declared.kubernetes_settings import KubernetesSettings
from gpu_profile.kubernetes import operators
from gpu_profile.kubernetes.kubectl import KubernetesCluster
from gpu_profile.verbs.machine.run_steps import run_steps


def install_operator(options: InstallOperatorOptions) -> None:
    settings = load_settings(options)
    new_operator = operators.find_operator(options.operator)
    replace = options.replace_mpijob_v1
    cluster = KubernetesCluster(context=settings.of(KubernetesSettings).context)
    run_steps(
        operators.install_operator(cluster, new_operator, options.from_, replace_v1=replace),
        options,
    )
