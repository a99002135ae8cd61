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
        "machine.doctor",
        "Say what this machine, or the remote one, can do, and what to do about the rest.",
    ),
    Verb("config", "machine.config", "Show every setting and its source."),
    Verb(
        "init",
        "machine.init",
        "Write a settings file with every setting, its default and a comment.",
    ),
    Verb("render", "image.render", "Print the Dockerfile."),
    Verb("lock", "image.lock", "Resolve versions, digests and checksums into gpu-profile.lock."),
    Verb("build", "image.build", "Build the image."),
    Verb("image-size", "image.image_size", "Show the image's size by component."),
    Verb("sbom", "image.sbom", "Print the image's bill of materials (SPDX)."),
    Verb("login", "image.login", "Log the docker CLI in to the registry."),
    Verb("push", "image.push", "Push the image, and print its digest."),
    Verb("pull", "image.pull", "Pull the image."),
    Verb("test", "jobs.test", "Run the image's own checks, or the NCCL tests with their gate."),
    Verb("run", "jobs.run", "Start the local container."),
    Verb("exec", "jobs.exec", "Run the words behind -- in it, or a shell."),
    Verb("status", "jobs.status", "Show a job, or the local container."),
    Verb("logs", "jobs.logs", "Show the output of a job, or of the local container."),
    Verb("stop", "jobs.stop", "End a job so that nsys finalises, or the local container."),
    Verb(
        "profile",
        "jobs.profile",
        "Run the words behind -- under nsys, bring the reports home, and say what they tell.",
    ),
    Verb("fetch", "jobs.fetch", "Bring the reports of a job here, and say what they tell."),
    Verb("reports", "jobs.reports", "List runs and their reports."),
    Verb("stats", "reading.stats", "Print nsys' tables, without nsys."),
    Verb("diagnose", "reading.diagnose", "Say what costs time, and what to try."),
    Verb("html", "reading.html", "Write one page of a run."),
    Verb("timeline", "reading.timeline", "Write a Perfetto trace of a run."),
    Verb(
        "compare",
        "reading.compare",
        "Compare two runs, or several of each, and fail on a regression.",
    ),
    Verb("scrub", "reading.scrub", "Copy a report without environment, secrets, paths and hosts."),
    Verb(
        "trace-file",
        "reading.trace_file",
        "Write what --python-functions-trace reads, of named functions.",
    ),
    Verb("counters", "machine.counters", "Allow GPU counters to every user, or undo it."),
    Verb(
        "k8s.install-operator",
        "machine.install_operator",
        "Install one of Kubeflow's operators, pinned.",
    ),
    Verb(
        "k8s.injector",
        "machine.injector",
        "Install NVIDIA's profiling injector by helm, or switch it.",
    ),
    Verb("check", "machine.check", "Lint, types and tests."),
)


def find_verb(name: str) -> Verb:
    return next(verb for verb in VERBS if verb.name == name)
