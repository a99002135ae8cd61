"""The rows of the verbs for Kubernetes: k8s.install-operator, k8s.injector."""

from gpu_profile.cli.table_settings import SET
from gpu_profile.cli.verb import Option, Verb

_COMMON = (
    Option("context", "", "Kubernetes: context", ("KUBE_CONTEXT",)),
    Option("dry-run", False, "print exactly what would run, and run nothing"),
    *SET,
)

KUBERNETES: tuple[Verb, ...] = (
    Verb(
        "k8s.install-operator",
        "machine.install_operator",
        "Install one of Kubeflow's operators, pinned.",
        (
            Option("operator", "mpi", "mpi, training or trainer"),
            Option("from", "", "manifest or kustomization to install, a path or a URL"),
            Option("replace-mpijob-v1", False, "take MPIJob v1 from the training operator"),
            *_COMMON,
        ),
    ),
    Verb(
        "k8s.injector",
        "machine.injector",
        "Install NVIDIA's profiling injector by helm, or switch it.",
        (
            Option("action", "", "install, status, on, off or uninstall", positional=True),
            Option("generation", "devtools", "devtools (sidecar injector) or operator (Nsight)"),
            Option("chart", "", "install: chart, a path or a URL"),
            Option("match", "", "install: pattern of command lines to profile"),
            Option("delay", 0.0, "install: seconds before recording"),
            Option("duration", 0.0, "install: seconds of recording; the job goes on"),
            Option("nsys-args", "", "install: nsys' options, instead of ours"),
            Option("values", "", "install: a file of helm values, over ours"),
            Option("image", "", "install: image of NVIDIA's tools (a mirror of it)"),
            Option("release-namespace", "nvidia-injector", "namespace of the injector itself"),
            Option("namespace", "", "on, off: namespace to switch", ("KUBE_NAMESPACE",)),
            Option("format", "text", "text, csv or json"),
            *_COMMON,
        ),
    ),
)
