# For the checks of test.d. A check exits 0, or 77 when it does not apply, or else it failed;
# its last line says why.
# shellcheck shell=bash
set -euo pipefail
export LC_ALL=C.UTF-8
work=$(mktemp -d)
trap 'rm -rf -- "${work}"' EXIT

pass() { printf 'ok: %s\n' "$*"; }

skip() {
    printf 'skip: %s\n' "$*"
    exit 77
}

fail() {
    printf 'FAILED: %s\n' "$*"
    exit 1
}

# manifest components.nsys: a value of /etc/gpu-profile/manifest.json, empty where it has none.
manifest() {
    python3 - "$1" <<'END'
import json, sys
value = json.load(open("/etc/gpu-profile/manifest.json"))
for name in sys.argv[1].split("."):
    value = value.get(name, "") if isinstance(value, dict) else ""
print(value)
END
}

# needs NAME: this check is about a component that this image may not have.
needs() { [[ -n $(manifest "components.$1") ]] || skip "this image has no $1"; }
