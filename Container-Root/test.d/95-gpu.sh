#!/usr/bin/env bash
# With a GPU: PyTorch sees it, and nsys records its kernels.
# shellcheck source=lib.sh
source "$(dirname -- "$0")/lib.sh"

[[ -e /dev/nvidiactl ]] || skip 'this container has no GPU'
needs torch
python3 -c 'import sys, torch; sys.exit(torch.version.cuda is None)' || skip 'a CPU build of PyTorch'

cat >"${work}/program.py" <<'END'
import torch
a = torch.ones(512, 512, device="cuda")
for _ in range(10):
    a = a @ a / 512
torch.cuda.synchronize()
END
cd "${work}"
nsys profile --trace=cuda --sample=none --cpuctxsw=none --output=report python3 program.py >log 2>&1 ||
    fail "nsys profile: $(tail -n 3 log)"
nsys export --type=sqlite --output=report.sqlite report.nsys-rep >log 2>&1 ||
    fail "nsys export: $(tail -n 3 log)"
kernels=$(python3 -c 'import sqlite3; print(sqlite3.connect("report.sqlite")
    .execute("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL").fetchone()[0])')
((kernels >= 20)) || fail "${kernels} kernels in the report, expected 20 or more"
pass "${kernels} kernels recorded"
