#!/usr/bin/env bash
# Write the answer of a finished run as a comment on the pull requests of its commit. Runs none of the
# change's code: of its artifact it reads one JSON file, and makes the comment anew. Inputs come by
# environment: GITHUB_TOKEN, GP_RUN_ID, GP_HEAD_SHA, GP_ARTIFACT, and for the line that repeats it those
# of run.sh: GP_COMMAND, GP_BASE, GP_PAIRS, GP_FLAGS.
set -euo pipefail
# shellcheck source=program.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/program.sh"

# The token reaches what calls the API alone, and not what installs packages or reads the artifact.
token=$GITHUB_TOKEN
unset GITHUB_TOKEN
github() { GITHUB_TOKEN=$token python3 -I "$here/actions/github.py" "$@"; }

cd -- "$work" # an .env of the runner's directory is none of this
prepare
github fetch "$GP_RUN_ID" "${GP_ARTIFACT:-gpu-profile-ci}" "$work/ci.json"
words=("--result=$work/ci.json" --format=markdown "--output=$work/ci.md")
if [[ -n ${GP_COMMAND-} ]]; then
  read_flags
  words+=("--base=$GP_BASE" "--pairs=${GP_PAIRS:-6}" "${flags[@]}" -- bash -c "$GP_COMMAND")
fi
code=0
gpu_profile ci "${words[@]}" 2>"$work/said" || code=$?
# 8 is a change that is slower: an answer too.
((code == 0 || code == 8)) || {
  {
    begin_quote
    cat -- "$work/said"
    end_quote
  } >&2
  exit "$code"
}
github post "$GP_HEAD_SHA" "$work/ci.md"
