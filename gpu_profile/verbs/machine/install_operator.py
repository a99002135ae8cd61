"""k8s.install-operator: install one of Kubeflow's operators."""

from gpu_profile.cli.flags import load_settings
from gpu_profile.cli.table import Options, Verb
from gpu_profile.kubernetes import operators
from gpu_profile.kubernetes.kubectl import KubernetesCluster
from gpu_profile.verbs.machine.run_steps import run_steps


def install_operator(verb: Verb, options: Options) -> None:
    chosen = load_settings(verb, options)
    new_operator = operators.find_operator(str(options["operator"]))
    replace = bool(options["replace_mpijob_v1"])
    cluster = KubernetesCluster(context=chosen.kube_context)
    run_steps(
        operators.install_operator(cluster, new_operator, str(options["from"]), replace_v1=replace),
        options,
    )
