#!/usr/bin/env bash
# There is one MPI, and two ranks of it sum their numbers.
# shellcheck source=lib.sh
source "$(dirname -- "$0")/lib.sh"
needs mpi

all=$(type -ap mpirun | xargs -n 1 realpath | sort -u)
[[ $(wc -l <<<"${all}") == 1 ]] || fail "several mpirun: ${all//$'\n'/ }"
[[ ! -e /opt/hpcx && ! -e /etc/ld.so.conf.d/hpcx.conf ]] || fail 'HPC-X is still there'
libraries=$(ldconfig -p | awk '$1 ~ /^libmpi\.so\.[0-9]+$/ { print $NF }' | xargs -rn 1 realpath | sort -u)
[[ $(wc -l <<<"${libraries}") == 1 ]] || fail "several libmpi: ${libraries//$'\n'/ }"

cat >"${work}/program.py" <<'END'
"""MPI_Allreduce through the C library itself: no binding is needed."""
import ctypes
import sys

mpi = ctypes.CDLL(sys.argv[1], ctypes.RTLD_GLOBAL)
world = ctypes.byref(ctypes.c_char.in_dll(mpi, "ompi_mpi_comm_world"))
integer = ctypes.byref(ctypes.c_char.in_dll(mpi, "ompi_mpi_int"))
total = ctypes.byref(ctypes.c_char.in_dll(mpi, "ompi_mpi_op_sum"))
mpi.MPI_Init(None, None)
rank = ctypes.c_int()
mpi.MPI_Comm_rank(world, ctypes.byref(rank))
mine, answer = ctypes.c_int(rank.value + 1), ctypes.c_int()
mpi.MPI_Allreduce(ctypes.byref(mine), ctypes.byref(answer), 1, integer, total, world)
print("sum", answer.value, flush=True)
mpi.MPI_Finalize()
END
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
timeout 120 mpirun --oversubscribe -np 2 python3 "${work}/program.py" "${libraries}" \
    >"${work}/out" 2>"${work}/errors" || fail "mpirun: $(tail -n 2 "${work}/errors")"
[[ $(grep -c '^sum 3$' "${work}/out") == 2 ]] || fail "two ranks did not meet: $(cat "${work}/out")"
pass "Open MPI $(manifest components.mpi), ${all}, two ranks"
