"""Which files may be traces, by their names. Imports nothing: each verb that reads asks."""

from pathlib import Path

JSON_ENDINGS = (".json", ".json.gz")


def is_trace(path: Path) -> bool:
    """Whether a file may be a trace of torch.profiler, such as NAME.pt.trace.json.gz."""
    return path.name.endswith(JSON_ENDINGS)
