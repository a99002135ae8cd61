#!/usr/bin/env bash
# Ask the command itself about programs of this folder: answers.sh OUT PROGRAM...
#
# OUT/NAME/before.json, after.json: times of blocks with the cause and with its fix (turns.py), without
# a profiler, right before and right after `profile -- python3 turns.py NAME user`, whose run directory
# is OUT/NAME/runs/RUN and whose answer is OUT/NAME/answer.txt. All three start at once and wait after
# their imports for their turn. TURNS_LOCK, a file, lets several answers.sh run side by side.
# TURNS_USER names the seconds of the profiled program (24); programs in CUDA C++ make 48 steps.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
out=${1:?usage: answers.sh OUT PROGRAM...}
shift
mkdir -p -- "$out"
out=$(cd -- "$out" && pwd)
readonly here out lock=${TURNS_LOCK:-/tmp/turns.lock} ready_s=40 held_s=${TURNS_HELD:-90}
cd -- "$here/../.."
export PYTHONPATH=$here/../..${PYTHONPATH:+:$PYTHONPATH}
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
export HF_HUB_OFFLINE=1 XLA_PYTHON_CLIENT_PREALLOCATE=false TOKENIZERS_PARALLELISM=false

# start NAME MODE TURN: `turns` is measured, all else is profiled
start() {
  local folder=$out/$1 words=(python3 "$here/turns.py" "$1" "$2") ranks graphs=()
  # As `profile` has it for a script that imports JAX, which turns.py does for it.
  if grep -qE '^(import|from) (jax|flax)' "$here/programs/$1".*; then
    graphs=(--cuda-graph-trace node)
  fi
  ranks=$(sed -n 's/^RANKS = //p' "$here/programs/$1".*)
  if [[ -n $ranks ]]; then
    words=(python3 -m torch.distributed.run --standalone --nproc-per-node="$ranks" "${words[@]:1}")
  fi
  if [[ -f $here/programs/$1.cu ]]; then
    words=("$folder/program" "${2/user/planted}")
  fi
  if [[ $2 == turns ]]; then
    TURNS_LOCK=$folder/$3.gate "${words[@]}" >"$folder/$3.json" 2>"$folder/$3.log" &
  else
    TURNS_LOCK=$folder/$3.gate REPORT_DIR=$folder/runs python3 -m gpu_profile.cli.start \
      profile --on host "${graphs[@]}" -- "${words[@]}" >"$folder/answer.txt" 2>"$folder/profile.log" &
  fi
  started=$!
}

# await PID: until it waits for its gate (flock is system call 73 of x86-64), or has ended
await() {
  local until=$((SECONDS + ready_s))
  while ((SECONDS < until)) && [[ -d /proc/$1 ]] && ! grep -qs '^73 ' "/proc/$1/syscall"; do
    sleep 0.1
  done
}

# pass GATE PID: until a program has come through this gate and has ended, or PID has
pass() {
  local until=$((SECONDS + held_s))
  while ((SECONDS < until)) && [[ -d /proc/$2 ]] && flock -n "$1" true; do sleep 0.05; done
  while ((SECONDS < until)) && [[ -d /proc/$2 ]] && ! flock -n "$1" true; do sleep 0.05; done
}

# ask NAME
ask() {
  local folder=$out/$1 before user after
  mkdir -p -- "$folder/runs"
  if [[ -f $here/programs/$1.cu ]]; then
    nvcc -O2 -std=c++17 -arch=native -o "$folder/program" "$here/programs/$1.cu"
  fi
  exec 6>>"$lock" 7>"$folder/before.gate" 8>"$folder/user.gate" 9>"$folder/after.gate"
  flock 7 && flock 8 && flock 9
  # Children keep no gate and no GPU: a lock ends with its last descriptor.
  {
    start "$1" turns before && before=$started
    start "$1" user user && user=$started
    start "$1" turns after && after=$started
  } 6>&- 7>&- 8>&- 9>&-
  await "$before"
  flock 6
  exec 7>&-
  wait "$before" || echo "$1 before: exit code $?" >&2
  exec 8>&-
  pass "$folder/user.gate" "$user"
  # The reports are read when the last blocks have ended: that takes all cores.
  kill -STOP "$user" || true
  exec 9>&-
  wait "$after" || echo "$1 after: exit code $?" >&2
  exec 6>&-
  kill -CONT "$user" || true
  wait "$user" || echo "$1 profile: exit code $?" >&2
}

for name in "$@"; do
  ask "$name"
  printf '%5d s  %s\n' "$SECONDS" "$name"
done
