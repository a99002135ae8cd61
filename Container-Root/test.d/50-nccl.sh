#!/usr/bin/env bash
# NCCL's header, its library and the manifest agree, and plugins find the CUDA runtime.
# shellcheck source=lib.sh
source "$(dirname -- "$0")/lib.sh"
needs nccl

version=$(manifest components.nccl)
loaded=$(python3 -c 'import ctypes
number = ctypes.c_int()
ctypes.CDLL("libnccl.so.2").ncclGetVersion(ctypes.byref(number))
n = number.value
print(f"{n // 10000}.{n // 100 % 100}.{n % 100}")') || fail 'libnccl.so.2 does not load'
[[ ${loaded} == "${version}" ]] || fail "nccl.h says ${version}, the library ${loaded}"
[[ -z ${LD_PRELOAD:-} && ! -s /etc/ld.so.preload ]] || fail 'something is preloaded'
python3 -c 'import ctypes; ctypes.CDLL("libcudart.so")' ||
    fail 'no libcudart.so by its plain name: network plugins do not load without it'
pass "NCCL ${version}"
