"""The verbs, one row each. tasks.py makes Invoke tasks of them.

A verb's module is imported when the verb runs, so that `invoke --list` is fast.
"""

from gpu_profile.cli.table_kubernetes import KUBERNETES
from gpu_profile.cli.table_settings import INIT, SET, SETTINGS
from gpu_profile.cli.verb import Option, Options, Verb

__all__ = ["VERBS", "WHERE", "Option", "Options", "Verb"]

_FORMAT = Option("format", "text", "text, csv or json")
_DRY_RUN = Option("dry-run", False, "print exactly what would run, and run nothing")
_ON = Option("on", "", "docker, host, ssh, slurm, mpijob, pytorchjob, trainjob", ("LAUNCHER",))
_JOB = Option("job", "", "handle, run id or name of a job; default: the local container")
_RUN = Option("run", "", "run id, name or handle; default: the latest")
_REPORT = Option("report", (), "a report's file or directory; may be given again")
_OUTPUT = Option("output", "", "file to write")
_UNLOCKED = Option("unlocked", False, "build without the lock file's checksums")
_YES = Option("yes", False, "do not ask")

_RANGES = ("none", "cudaProfilerApi", "nvtx", "hotkey")
_KUBERNETES = ("mpijob", "pytorchjob", "trainjob")


def _make_launcher_option(launchers: str, name: str, doc: str, *settings: str) -> Option:
    names = _KUBERNETES if launchers == "Kubernetes" else tuple(launchers.split(", "))
    return Option(name, "", f"{launchers}: {doc}", settings, of=names)


WHERE = (
    _ON,
    _make_launcher_option("ssh", "host", "user@address", "SSH_HOST"),
    _make_launcher_option(
        "host, ssh, slurm", "workdir", "where the job runs", "SSH_WORKDIR", "SLURM_WORKDIR"
    ),
    _make_launcher_option("ssh", "sync", "directory to copy there first", "SSH_SYNC"),
    _make_launcher_option("slurm", "login", "user@address of a log-in node", "SLURM_LOGIN"),
    _make_launcher_option("slurm", "partition", "partition", "SLURM_PARTITION"),
    _make_launcher_option("slurm", "time", "time limit", "SLURM_TIME"),
    _make_launcher_option("slurm", "modules", "modules to load", "SLURM_MODULES"),
    _make_launcher_option("slurm", "sbatch-args", "more options for sbatch", "SLURM_ARGS"),
    _make_launcher_option("Kubernetes", "namespace", "namespace", "KUBE_NAMESPACE"),
    _make_launcher_option("Kubernetes", "context", "context", "KUBE_CONTEXT"),
    _make_launcher_option("Kubernetes", "instance", "EC2 instance type", "KUBE_INSTANCE"),
    _make_launcher_option("Kubernetes", "pvc", "NAME:/path for the reports", "KUBE_PVC"),
    _make_launcher_option("Kubernetes", "queue", "Kueue's local queue", "KUBE_QUEUE"),
)
_SHAPE = (
    Option("nodes", 1, "nodes"),
    Option("gpus", "all", "GPUs a node: N, all, or 0 for none"),
    Option("gpus-per-node", "", "the same, in the words of Slurm and Kubernetes"),
    Option("image", "", "image to run, instead of the settings'", kind="address"),
    Option("name", "", "name of the run"),
)
_PROFILE = (
    Option("ddp", False, "one process a GPU, with torchrun's variables"),
    Option("processes", 0, "processes a node; default: one a GPU, two without GPUs", kind="count"),
    Option("ranks", "all", "ranks to profile: all, 0,3 or 0-3", kind="ranks"),
    Option("preset", "light", "light, comm or full"),
    Option("trace", "", "nsys: what to trace"),
    Option("sample", "", "nsys: CPU sampling"),
    Option("capture-range", "", "nsys: none, cudaProfilerApi or nvtx", choices=_RANGES),
    Option("capture-range-end", "", "nsys: stop, stop-shutdown, repeat[:N], …"),
    Option("delay", 0.0, "nsys: seconds before recording", kind="number"),
    Option("duration", 0.0, "nsys: seconds of recording; the job goes on", kind="number"),
    Option("python-functions-trace", "", "nsys: JSON file of functions to trace"),
    Option("nvtx-domain-include", "", "nsys: NVTX domains to record"),
    Option("nvtx-domain-exclude", "", "nsys: NVTX domains to leave out"),
    Option("cuda-graph-trace", "", "nsys: graph or node"),
    Option("gpu-metrics", False, "hardware counters, on local rank 0"),
    Option("nic-metrics", False, "network counters, on local rank 0"),
    Option("stats", False, "tables at the end, ours here and nsys' own in the job's output"),
    Option("export", "", "nsys: export in the job"),
    Option("nsys-args", "", "more nsys options, last, as they are"),
    Option("strict", False, "refuse where a preset would degrade"),
    Option("env", (), "NAME or NAME=value for the job; may be given again", kind="variable"),
    Option("mount", (), "SOURCE:TARGET[:ro] in the container; may be given again", kind="mount"),
    Option("baseline", False, "run without nsys first, and say what the profile costs"),
    Option("detach", False, "return once it is submitted"),
    Option("keep", False, "leave the job's remains on its engine"),
)
_ANSWER = (
    Option("no-html", False, "write no page"),
    Option("format", "text", "text or json, of the answer at the end"),
)
_WINDOW = Option("window", 0, "one window of several (repeat:N); 0: all in series", kind="count")
_SCHEDULER = Option(
    "scheduler", "", "address of a Dask scheduler that reads the reports", kind="scheduler"
)
_TABLES = (
    Option("table", "", "names, separated by commas"),
    Option("by", "", "rank, device or stream; of modules: module, class or line"),
    Option("depth", 0, "of modules: how many parts of the name; 0: all", kind="count"),
    Option("top", 0, "rows of each table; 0: all", kind="count"),
    Option("filter", "", "rows whose text matches this pattern"),
    _WINDOW,
    Option("names", "short", "short or full kernel names in text"),
    _SCHEDULER,
)
_REGISTRY = (_DRY_RUN, *SETTINGS)
_READ = (_RUN, _REPORT, *SET)

VERBS: tuple[Verb, ...] = (
    Verb(
        "quickstart",
        "machine.quickstart",
        "Set up what is missing, build, profile the sample training, and read it.",
        (_YES, *SETTINGS),
    ),
    Verb(
        "doctor",
        "machine.doctor",
        "Say what this machine, or the remote one, can do, and what to do about the rest.",
        (Option("fix", False, "do what can be done here"), _YES, _FORMAT, *WHERE, *SETTINGS),
    ),
    Verb(
        "config",
        "machine.config",
        "Show every setting and its source.",
        (Option("format", "text", "text, csv, json, or env for a fresh .env"), *SETTINGS),
    ),
    INIT,
    Verb("render", "image.render", "Print the Dockerfile.", SETTINGS),
    Verb(
        "lock",
        "image.lock",
        "Resolve versions, digests and checksums into gpu-profile.lock.",
        (Option("check", False, "only report drift, offline"), *SETTINGS),
    ),
    Verb(
        "build",
        "image.build",
        "Build the image.",
        (
            _DRY_RUN,
            _UNLOCKED,
            Option("rebuild-base", False, "make the embedded base anew"),
            Option("cache-from", "", "registry to take cached steps from"),
            Option("cache-to", "", "registry to give them to"),
            Option("sbom", False, "attach BuildKit's own bill of materials"),
            *SETTINGS,
        ),
    ),
    Verb(
        "image-size",
        "image.image_size",
        "Show the image's size by component.",
        (_FORMAT, *SETTINGS),
    ),
    Verb("sbom", "image.sbom", "Print the image's bill of materials (SPDX).", SETTINGS),
    Verb("login", "image.login", "Log the docker CLI in to the registry.", (_YES, *_REGISTRY)),
    Verb("push", "image.push", "Push the image, and print its digest.", _REGISTRY),
    Verb("pull", "image.pull", "Pull the image.", _REGISTRY),
    Verb(
        "test",
        "jobs.test",
        "Run the image's own checks, or the NCCL tests with their gate.",
        (
            Option("suite", "image", "image or nccl"),
            Option("collective", "all_reduce", "nccl: names, separated by commas"),
            Option("min-busbw", 0.0, "nccl: GB/s to reach", kind="number"),
            Option("at", "1G", "nccl: at this message size"),
            Option("floor", "", "nccl: instance type whose measured floor is the gate"),
            Option("junit", "", "file for a JUnit report"),
            _DRY_RUN,
            *WHERE,
            *_SHAPE,
            *SETTINGS,
        ),
    ),
    Verb("run", "jobs.run", "Start the local container.", (_DRY_RUN, *SETTINGS)),
    Verb("exec", "jobs.exec", "Run the words behind -- in it, or a shell.", SETTINGS),
    Verb(
        "status",
        "jobs.status",
        "Show a job, or the local container.",
        (_JOB, *WHERE, *SETTINGS),
    ),
    Verb(
        "logs",
        "jobs.logs",
        "Show the output of a job, or of the local container.",
        (_JOB, Option("follow", False, "until it ends"), *WHERE, *SETTINGS),
    ),
    Verb(
        "stop",
        "jobs.stop",
        "End a job so that nsys finalises, or the local container.",
        (_JOB, *WHERE, *SETTINGS),
    ),
    Verb(
        "profile",
        "jobs.profile",
        "Run the words behind -- under nsys, bring the reports home, and say what they tell.",
        (_DRY_RUN, *_PROFILE, *_ANSWER, *WHERE, *_SHAPE, *SETTINGS),
    ),
    Verb(
        "fetch",
        "jobs.fetch",
        "Bring the reports of a job here, and say what they tell.",
        (_JOB, Option("stats", False, "tables at the end"), *_ANSWER, *WHERE, *SETTINGS),
    ),
    Verb("reports", "jobs.reports", "List runs and their reports.", (_FORMAT, *SET)),
    Verb(
        "stats",
        "reading.stats",
        "Print nsys' tables, without nsys.",
        (*_READ, *_TABLES, _FORMAT),
    ),
    Verb(
        "diagnose",
        "reading.diagnose",
        "Say what costs time, and what to try.",
        (*_READ, _FORMAT, _WINDOW, _SCHEDULER),
    ),
    Verb(
        "html",
        "reading.html",
        "Write one page of a run.",
        (*_READ, _OUTPUT, _WINDOW, _SCHEDULER),
    ),
    Verb(
        "timeline",
        "reading.timeline",
        "Write a Perfetto trace of a run.",
        (*_READ, _OUTPUT, _WINDOW),
    ),
    Verb(
        "compare",
        "reading.compare",
        "Compare two runs, or several of each, and fail on a regression.",
        (
            Option("base", (), "run id or directory to compare with; may be given again"),
            Option("new", (), "run id or directory to judge; may be given again"),
            Option("base-window", 0, "one window of the base; 0: all", kind="count"),
            Option("new-window", 0, "one window of the new run; 0: all", kind="count"),
            Option(
                "fail-over", "5%", "slower by this much, and significantly, fails", kind="percent"
            ),
            Option(
                "spread",
                "3%",
                "what runs differ by, where there are too few to measure it",
                kind="percent",
            ),
            Option("metric", "step", "step, range:NAME, module:NAME or kernel:NAME"),
            Option("format", "text", "text, json, markdown or junit"),
            _OUTPUT,
            _SCHEDULER,
            *SET,
        ),
    ),
    Verb(
        "scrub",
        "reading.scrub",
        "Copy a report without environment, secrets, paths and hosts.",
        (
            *_READ,
            _OUTPUT,
            Option("keep", (), "text to leave in; may be given again"),
            Option("also", (), "text to take out as well; may be given again"),
        ),
    ),
    Verb(
        "trace-file",
        "reading.trace_file",
        "Write what --python-functions-trace reads, of named functions.",
        (
            Option("function", (), "package.module:function; any number of them", positional=True),
            _OUTPUT,
            Option("domain", "", "NVTX domain"),
            Option("category", "", "NVTX category"),
            Option("color", "", "colour, as 0xRRGGBB"),
        ),
    ),
    Verb(
        "counters",
        "machine.counters",
        "Allow GPU counters to every user, or undo it.",
        (
            Option("allow", False, "allow them"),
            Option("restrict", False, "undo it"),
            _YES,
            _DRY_RUN,
            *WHERE,
            *SETTINGS,
        ),
    ),
    *KUBERNETES,
    Verb(
        "check",
        "machine.check",
        "Lint, types and tests.",
        (Option("require", (), "fail where this part is missing; may be given again"),),
    ),
)
