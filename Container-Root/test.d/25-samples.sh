#!/usr/bin/env bash
# The sample training learns on two ranks and records its ranges; the sample inference is right.
# shellcheck source=lib.sh
source "$(dirname -- "$0")/lib.sh"
needs torch

cd "${work}"
python3 /profile.py --processes=2 --ranks=1 --output=out --annotate=none --trace=nvtx \
    --sample=none --cpuctxsw=none -- python3 /train.py --device=cpu >log 2>errors ||
    fail "train.py: $(tail -n 1 errors)"
python3 - log <<'END' || fail 'train.py did not learn'
import json, sys

lines = [json.loads(line) for line in open(sys.argv[1]) if line.startswith("{")]
first, *steps = lines
assert (first["world_size"], first["backend"]) == (2, "gloo"), first
assert [step["step"] for step in steps] == list(range(20)), steps
assert all(step["step_ms"] > 0 for step in steps), steps
assert steps[-1]["loss"] < steps[0]["loss"] / 2, steps
END

nsys export --type=sqlite --output=report.sqlite out/rank1.*.nsys-rep >log 2>&1 ||
    fail "nsys export: $(tail -n 3 log)"
ranges=$(python3 - <<'END'
import sqlite3

names = sqlite3.connect("report.sqlite").execute(
    "SELECT coalesce(text, value), count(*) FROM NVTX_EVENTS LEFT JOIN StringIds ON textId = id"
    " WHERE eventType = 59 GROUP BY 1 ORDER BY 1"
)
print(*(f"{name}={count}" for name, count in names))
END
)
[[ ${ranges} == 'backward=23 data=23 forward=23 optimizer=23 step=23' ]] ||
    fail "NVTX ranges in the report: ${ranges:-none}"

export OMP_WAIT_POLICY=passive # beside other jobs, threads that spin take each other's cores
for network in conv transformer; do
    python3 /bench_inference.py --network="${network}" --device=cpu --samples=16 >>bench 2>errors ||
        fail "bench_inference.py: $(tail -n 1 errors)"
done
if python3 /bench_inference.py --device=cpu --backend=cudagraph 2>errors; then
    fail 'bench_inference.py found CUDA graphs on the CPU'
fi
grep -qF 'CUDA graphs need a GPU' errors || fail "no reason given: $(tail -n 1 errors)"
pass "${ranges}; $(tail -n 1 bench)"
