# shellcheck shell=bash
# Sourced: gpu_profile runs the program of this checkout, in an environment with the locked packages.
# GPU_PROFILE=/usr/local/bin/gpu-profile takes one that is there.

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d "${RUNNER_TEMP:-/tmp}/gpu-profile.XXXXXX")
trap 'rm -rf -- "$work"' EXIT

# The runner obeys lines such as ::add-mask::, and names of kernels come from the program.
begin_quote() {
  quote=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
  echo "::stop-commands::$quote"
}

end_quote() { echo "::$quote::"; }

read_flags() { # into flags: those of GP_FLAGS, one a line
  local flag
  flags=()
  while IFS= read -r flag; do
    [[ -z $flag ]] || flags+=("$flag")
  done <<<"${GP_FLAGS-}"
}

prepare() {
  [[ -z ${GPU_PROFILE-} ]] || return 0
  # -I: no module of the working directory, which the change may have written, stands in for these
  python3 -I -m venv "$work/venv"
  "$work/venv/bin/python" -I -m pip install --quiet --disable-pip-version-check \
    --require-hashes -r "$here/requirements.txt"
}

gpu_profile() {
  if [[ -n ${GPU_PROFILE-} ]]; then
    "$GPU_PROFILE" "$@"
  else
    "$work/venv/bin/python" "$here/gpu_profile" "$@"
  fi
}
