#!/usr/bin/env bash
# Run the base and the change in turns, and leave the answer in GP_OUTPUT. Inputs come by environment:
# GP_COMMAND, GP_BASE, GP_PAIRS, GP_FLAGS (one a line), GP_OUTPUT. The exit code is that of `ci`.
set -euo pipefail
# shellcheck source=program.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/program.sh"

[[ -n ${GP_COMMAND-} && -n ${GP_BASE-} ]] || { echo "error: command and base are needed." >&2; exit 2; }
output=${GP_OUTPUT:-gpu-profile-ci}
read_flags
words=("--base=$GP_BASE" "--pairs=${GP_PAIRS:-6}" "${flags[@]}")
command=(-- bash -c "$GP_COMMAND")

prepare
mkdir -p -- "$output"
# An answer of an earlier run, or of the change's own files, is none of this run.
rm -f -- "$output"/ci.{json,txt,md,xml}
begin_quote
code=0
gpu_profile ci "${words[@]}" --format=json "--output=$output/ci.json" "${command[@]}" || code=$?
if [[ -f $output/ci.json ]]; then
  for form in text:txt markdown:md junit:xml; do
    gpu_profile ci "--result=$output/ci.json" "${words[@]}" "--format=${form%:*}" \
      "--output=$output/ci.${form#*:}" "${command[@]}" >/dev/null 2>&1 || true # ci has told it
  done
  cat -- "$output/ci.txt"
fi
end_quote
if [[ -f $output/ci.md && -n ${GITHUB_STEP_SUMMARY-} ]]; then
  cat -- "$output/ci.md" >>"$GITHUB_STEP_SUMMARY"
fi
exit "$code"
