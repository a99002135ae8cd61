#!/usr/bin/env bash
# The manifest says what is installed now, and packages are whole.
# shellcheck source=lib.sh
source "$(dirname -- "$0")/lib.sh"

installed=$(dpkg-query -W -f '${Status}|${binary:Package}\n' | grep -c ' installed|')
listed=$(python3 -c 'import json; print(len(json.load(open("/etc/gpu-profile/manifest.json"))["packages"]))')
((installed == listed)) || fail "${installed} packages are installed, the manifest lists ${listed}"
broken=$(dpkg --audit)
[[ -z ${broken} ]] || fail "packages: ${broken//$'\n'/ }"
duplicates=$(cut -d: -f3 /etc/passwd | sort | uniq -d)
[[ -z ${duplicates} ]] || fail "accounts share a number: ${duplicates}"

# Files of packages that are not on disk were merged wrongly, but for what setup.d leaves out, and
# links that lead nowhere as packages have them (PyTorch 1.13's): ldconfig removes those.
readonly left_out='/dri/|/libcaffe2_|^/usr/share/(doc|man|info|locale)/|/torch/bin/test_|_rocm\.so|/libamdhip64\.so|/libhiprtc|/libamd_comgr\.so|/libLLVM|^/usr/lib/llvm-'
sort -u /var/lib/dpkg/info/*.list | grep -E '^/(usr|opt)/' | grep -vE "${left_out}" |
    while read -r path; do
        [[ -e ${path} || -L ${path} ]] || printf '%s\n' "${path}"
    done >"${work}/missing"
((!$(wc -l <"${work}/missing"))) ||
    fail "$(wc -l <"${work}/missing") files of packages are missing: $(head -n 3 "${work}/missing" | tr '\n' ' ')"
pass "${installed} packages"
