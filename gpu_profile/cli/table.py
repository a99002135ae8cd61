"""The verbs, one row each. cli/tasks.py makes Invoke tasks of them.

A verb's module and its flags are imported when the verb runs, so that `invoke --list` is fast.
"""

from gpu_profile.cli.verb import Verb

VERBS: tuple[Verb, ...] = (
    Verb(
        "quickstart",
        "machine.quickstart",
        "Set up what is missing, build, profile the sample training, and read it.",
    ),
    Verb(
        "doctor",
        "machine.host",
        "Say what this machine, or the remote one, can do, and what to do about the rest.",
    ),
    Verb("config", "machine.settings", "Show every setting and its source."),
    Verb(
        "init",
        "machine.settings",
        "Write a settings file with every setting, its default and a comment.",
    ),
    Verb("render", "image.describe", "Print the Dockerfile."),
    Verb("lock", "image.lock", "Resolve versions, digests and checksums into gpu-profile.lock."),
    Verb("build", "image.build", "Build the image."),
    Verb("image-size", "image.describe", "Show the image's size by component."),
    Verb("sbom", "image.describe", "Print the image's bill of materials (SPDX)."),
    Verb("login", "image.registry", "Log the docker CLI in to the registry."),
    Verb("push", "image.registry", "Push the image, and print its digest."),
    Verb("pull", "image.registry", "Pull the image."),
    Verb("test", "jobs.test", "Run the image's own checks, or the NCCL tests with their gate."),
    Verb("run", "jobs.control", "Start the local container."),
    Verb("exec", "jobs.control", "Run the words behind -- in it, or a shell."),
    Verb("status", "jobs.control", "Show a job, or the local container."),
    Verb("logs", "jobs.control", "Show the output of a job, or of the local container."),
    Verb("stop", "jobs.control", "End a job so that nsys finalises, or the local container."),
    Verb(
        "profile",
        "jobs.profile",
        "Run the words behind -- under nsys, bring the reports home, and say what they tell.",
    ),
    Verb("fetch", "jobs.fetch", "Bring the reports of a job here, and say what they tell."),
    Verb("reports", "jobs.reports", "List runs and their reports."),
    Verb("stats", "reading.stats", "Print nsys' tables, without nsys."),
    Verb("diagnose", "reading.findings", "Say what costs time, and what to try."),
    Verb("what-if", "reading.what_if", "Predict the step without a cause, by a replay."),
    Verb("html", "reading.html", "Write one page of a run."),
    Verb("timeline", "reading.timeline", "Write a Perfetto trace of a run."),
    Verb(
        "compare",
        "reading.compare",
        "Compare two runs, or several of each, and fail on a regression.",
    ),
    Verb("scrub", "reading.scrub", "Copy a report without environment, secrets, paths and hosts."),
    Verb("mcp", "assistant.mcp", "Serve runs to an assistant (MCP on stdio), read-only."),
    Verb(
        "trace-file",
        "reading.trace_file",
        "Write what --python-functions-trace reads, of named functions.",
    ),
    Verb("counters", "machine.host", "Allow GPU counters to every user, or undo it."),
    Verb(
        "k8s.install-operator",
        "machine.kubernetes",
        "Install one of Kubeflow's operators, pinned.",
    ),
    Verb(
        "k8s.injector",
        "machine.kubernetes",
        "Install NVIDIA's profiling injector by helm, or switch it.",
    ),
    Verb("check", "machine.check", "Lint, types and tests."),
)


def find_verb(name: str) -> Verb:
    return next(verb for verb in VERBS if verb.name == name)
