"""Run one export of a report."""

from gpu_profile import process
from gpu_profile.command import Command, Result
from gpu_profile.nsys.export import without_blobs


def run_export(export: Command) -> Result:
    """Run an export; run it again without NVTX payloads if this nsys cannot export them."""
    result = process.run(export)
    plain = without_blobs(export, result)
    return process.run(plain) if plain else result
