#!/usr/bin/env bash
# The programs of nccl-tests start, with MPI, and are built for GPUs.
# shellcheck source=lib.sh
source "$(dirname -- "$0")/lib.sh"
needs nccl-tests

for name in all_reduce all_gather reduce_scatter sendrecv alltoall; do
    program=$(command -v "${name}_perf") || fail "no ${name}_perf"
    [[ $(ldd "${program}") == *libmpi.so* ]] || fail "${name}_perf is built without MPI"
    [[ $("${program}" -h 2>&1) == *--minbytes* ]] || fail "${name}_perf does not say its options"
done
# The code for GPUs is in a section of its own; without it nothing was compiled for any.
python3 - "$(realpath "$(command -v all_reduce_perf)")" <<'END' || fail 'no GPU code in all_reduce_perf'
import sys
data = open(sys.argv[1], "rb").read()
sys.exit(b".nv_fatbin" not in data)
END
pass "nccl-tests $(manifest components.nccl-tests)"
