#!/usr/bin/env bash
# GDRCopy's library loads and says the version of the manifest.
# shellcheck source=lib.sh
source "$(dirname -- "$0")/lib.sh"
needs gdrcopy

version=$(manifest components.gdrcopy)
loaded=$(python3 -c 'import ctypes
major, minor = ctypes.c_int(), ctypes.c_int()
ctypes.CDLL("libgdrapi.so.2").gdr_runtime_get_version(ctypes.byref(major), ctypes.byref(minor))
print(f"{major.value}.{minor.value}")') || fail 'libgdrapi.so.2 does not load'
[[ ${loaded} == "${version}" ]] || fail "the file says ${version}, the library ${loaded}"
pass "GDRCopy ${version}"
