"""The verbs, one row each. cli/tasks.py makes Invoke tasks of them.

A verb's module and its flags are imported when the verb runs, so that `invoke --list` is fast.
"""

from gpu_profile.cli.verb import Verb

SUBJECTS = {
    "jobs": "Run and profile",
    "reading": "Read reports",
    "pull_request": "Pull requests",
    "image": "Image and registry",
    "machine": "Machine, cluster and settings",
    "assistant": "Assistants",
}
"""The titles of the verbs in help, by the folder of their module."""

VERBS: tuple[Verb, ...] = (
    Verb(
        "quickstart",
        "machine.quickstart",
        "Set up what is missing, build, profile the sample training, and read it.",
        "quickstart --yes",
    ),
    Verb(
        "doctor",
        "machine.host",
        "Check what this machine, or that of --on, can do, and say how to mend the rest.",
        "doctor --fix",
    ),
    Verb(
        "config",
        "machine.settings",
        "Show every setting and its source.",
        "config --format json",
    ),
    Verb(
        "init",
        "machine.settings",
        "Write a settings file with every setting, its default and a comment.",
        "init --user",
    ),
    Verb(
        "render",
        "image.describe",
        "Print the Dockerfile.",
        "render --set INSTALL_EFA=true",
    ),
    Verb(
        "lock",
        "image.lock",
        "Resolve versions, digests and checksums into gpu-profile.lock.",
        "lock --check",
    ),
    Verb(
        "build",
        "image.build",
        "Build the image.",
        "build --requirements requirements.txt",
    ),
    Verb("image-size", "image.describe", "Show the image's size by component."),
    Verb("sbom", "image.describe", "Print the image's bill of materials (SPDX)."),
    Verb(
        "login",
        "image.registry",
        "Log the docker CLI in to the registry.",
        "login --dry-run",
    ),
    Verb("push", "image.registry", "Push the image, and print its digest."),
    Verb("pull", "image.registry", "Pull the image."),
    Verb(
        "test",
        "jobs.test",
        "Run the image's own checks, or the NCCL tests with their gate.",
        "test --suite nccl",
    ),
    Verb("run", "jobs.control", "Start the local container."),
    Verb(
        "exec",
        "jobs.control",
        "Run the words after --, or a shell, in the local container.",
        "exec -- nvidia-smi",
    ),
    Verb(
        "status",
        "jobs.control",
        "Show a job, or the local container.",
        "status --job train",
    ),
    Verb(
        "logs",
        "jobs.control",
        "Show the output of a job, or of the local container.",
        "logs --job train --follow",
    ),
    Verb(
        "stop",
        "jobs.control",
        "End a job, whose reports nsys then completes, or the local container.",
        "stop --job train",
    ),
    Verb(
        "profile",
        "jobs.profile",
        "Run the words after -- under nsys, bring the reports home, and say what they tell.",
        "profile --mount . -- python3 train.py",
    ),
    Verb(
        "record",
        "jobs.record",
        "Record a window of a job that `profile --record manual` started.",
        "record --job train --seconds 5",
    ),
    Verb(
        "drill",
        "jobs.drill",
        "Run a run's command, or the words after --, again: ncu measures the costliest kernels.",
        "drill --run train --top 3",
    ),
    Verb(
        "fetch",
        "jobs.fetch",
        "Bring the reports of a job here, and say what they tell.",
        "fetch --job train",
    ),
    Verb(
        "reports",
        "jobs.reports",
        "List runs and their reports.",
        "reports --prune --older 30d",
    ),
    Verb(
        "stats",
        "reading.stats",
        "Print nsys' tables, without nsys.",
        "stats --table step_sum,cuda_gpu_kern_sum",
    ),
    Verb(
        "diagnose",
        "reading.findings",
        "Say what costs time, and what to try.",
        "diagnose --report rank0.sqlite",
    ),
    Verb(
        "what-if",
        "reading.what_if",
        "Predict the step without a cause, by a replay.",
        "what-if --remove 'host pauses'",
    ),
    Verb(
        "html",
        "reading.html",
        "Write one page of a run.",
        "html --run train --open",
    ),
    Verb(
        "open",
        "reading.desktop",
        "Show a run's reports in the local Nsight Systems.",
        "open --run train",
    ),
    Verb(
        "timeline",
        "reading.timeline",
        "Write a Perfetto trace of a run.",
        "timeline --run train",
    ),
    Verb(
        "compare",
        "reading.compare",
        "Compare two runs, or several of each, and fail on a regression.",
        "compare --base main --new train --fail-over 3%",
    ),
    Verb(
        "ci",
        "pull_request.ci",
        "Run the words after -- of a base and of the change in turns, and judge the change.",
        "ci --base main -- python3 train.py",
    ),
    Verb(
        "scrub",
        "reading.scrub",
        "Copy a report without environment, secrets, paths and hosts.",
        "scrub --run train --output clean",
    ),
    Verb("mcp", "assistant.mcp", "Serve runs to an assistant (MCP on stdio), read-only."),
    Verb(
        "trace-file",
        "reading.trace_file",
        "Write a file of functions for profile --python-functions-trace.",
        "trace-file my.module:load --output trace.json",
    ),
    Verb(
        "counters",
        "machine.host",
        "Allow GPU counters to every user, or to root only.",
        "counters --allow",
    ),
    Verb(
        "k8s.install-operator",
        "machine.kubernetes",
        "Install one of Kubeflow's operators, pinned.",
        "k8s.install-operator --operator mpi",
    ),
    Verb(
        "k8s.injector",
        "machine.kubernetes",
        "Install NVIDIA's profiling injector by helm, or switch it on or off.",
        "k8s.injector status",
    ),
    Verb(
        "check",
        "machine.check",
        "Lint, types and tests; words for pytest after --.",
        "check -- -k redact",
    ),
)


def find_verb(name: str) -> Verb:
    return next(verb for verb in VERBS if verb.name == name)
