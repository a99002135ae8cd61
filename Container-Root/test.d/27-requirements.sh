#!/usr/bin/env bash
# Each package that the build installed from the requirements file is there, in that version.
# shellcheck source=lib.sh
source "$(dirname -- "$0")/lib.sh"
readonly list=/etc/gpu-profile/requirements.txt
[[ -s ${list} ]] || skip "this image has no requirements file"

python3 - "${list}" >"${work}/wrong" 2>&1 <<'END' || fail "$(tail -n 1 "${work}/wrong")"
import sys
from importlib.metadata import version

for line in open(sys.argv[1]):
    name, _, expected = line.strip().partition("==")
    if version(name) != expected:
        sys.exit(f"{name} is {version(name)}, and the build installed {expected}")
END
pass "$(wc -l <"${list}") packages"
