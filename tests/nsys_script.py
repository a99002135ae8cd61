"""A fake nsys in a shell: a Python would take 40 ms of CPU for each of a dozen calls of a test."""

from pathlib import Path

from tests.project_copy import ROOT

HELP = ROOT / "tests" / "data" / "nsys-help" / "2023.4.txt"
SCRIPT = f"""#!/bin/sh
set -C  # a file that is there, or a link, is not written to
case "$*" in
  *--version*) echo 'NVIDIA Nsight Systems version 2025.1.1.1'; exit ;;
  *--help*) exec cat '{HELP}' ;;
esac
for word; do case $word in --output=*) output=${{word#--output=}} ;; esac; done
[ "$1" != export ] || exec cat "${{0%/*}}/report.sqlite" >"$output"
shift
while case $1 in -*) ;; *) false ;; esac; do shift; done
"$@"
code=$?
echo report >"$output.nsys-rep"
exit "$code"
"""


def write_nsys(folder: Path) -> Path:
    """Write nsys into the folder. Its exports are copies of `report.sqlite` there."""
    nsys = folder / "nsys"
    nsys.write_text(SCRIPT)
    nsys.chmod(0o755)
    return nsys
