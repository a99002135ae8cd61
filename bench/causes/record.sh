#!/usr/bin/env bash
# Measure and record the programs of this folder on a machine with a GPU: record.sh OUT [PROGRAM...]
#
# OUT/NAME/turns.json: times of blocks with the cause and with its fix, without a profiler, beside
# plain/*.steps.json, how long the marks say that the host took in the phases of each step;
# OUT/NAME/planted.sqlite: a recording with the cause (planted.rank0.sqlite and more of a program of
# several ranks, each with a GPU). MODES="fixed" records with the fix in place of
# both; MODES="turns planted fixed" does all.
# NSYS names the nsys, LEVEL the marks, TURNS_LIMIT the most seconds of one run; TURNS_LOCK, a file,
# lets several record.sh run side by side. NVLink multicast stays off: on a host whose GPUs others
# share it can put them out of service.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
out=${1:?usage: record.sh OUT [PROGRAM...]}
shift
readonly here out nsys=${NSYS:-nsys} level=${LEVEL:-steps} limit=${TURNS_LIMIT:-90}
readonly agent=$here/../../Container-Root/agent/profile_ranks.py
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
export HF_HUB_OFFLINE=1 XLA_PYTHON_CLIENT_PREALLOCATE=false TOKENIZERS_PARALLELISM=false

readonly light=(--trace=cuda,nvtx --sample=none --cpuctxsw=none --cuda-event-trace=false
  --nvtx-domain-exclude=TSL --wait=primary)

# command NAME MODE: the words that run a program, into `words`, and its number of ranks
command_of() {
  words=(python3 "$here/turns.py" "$1" "$2")
  ranks=$(sed -n 's/^RANKS = //p' "$here/programs/$1".*)
  if [[ -f $here/programs/$1.cu ]]; then
    [[ -x $out/$1/program ]] ||
      nvcc -O2 -std=c++17 -arch=native -o "$out/$1/program" "$here/programs/$1.cu"
    words=("$out/$1/program" "$2")
  fi
}

# measure NAME
measure() {
  command_of "$1" turns
  if [[ -n $ranks ]]; then
    words=(python3 -m torch.distributed.run --standalone --nproc-per-node="$ranks" "${words[@]:1}")
  else
    words=(python3 "$agent" --plain --annotate="$level" --output="$out/$1/plain" -- "${words[@]}")
  fi
  timeout "$limit" "${words[@]}" 2>"$out/$1/turns.log" | tail -n 1 >"$out/$1/turns.json" ||
    echo "$1: exit code $?; see turns.log" >&2
}

# record NAME MODE
record() {
  local report rank graphs=graph
  # As `profile` has it: XLA puts the kernels of JAX into CUDA graphs.
  if grep -qE '^(import|from) (jax|flax)' "$here/programs/$1".*; then graphs=node; fi
  command_of "$1" "$2"
  timeout "$limit" python3 "$agent" --output="$out/$1/$2" --annotate="$level" --nsys="$nsys" \
    ${ranks:+--processes="$ranks"} "${light[@]}" --cuda-graph-trace="$graphs:host-only" -- "${words[@]}" >"$out/$1/$2.log" 2>&1 || echo "$1 $2: exit code $?; see $2.log" >&2
  for report in "$out/$1/$2"/*.nsys-rep; do
    rank=$(basename -- "$report")
    "$nsys" export --type=sqlite --include-blobs=true --force-overwrite=true \
      --output="$out/$1/$2${ranks:+.${rank%%.*}}.sqlite" "$report" >>"$out/$1/$2.log" 2>&1
  done
}

names=("$@")
if ((${#names[@]} == 0)); then
  while IFS= read -r path; do
    names+=("$(basename -- "${path%.*}")")
  done < <(grep -lE '^(#|//) causes: ' "$here"/programs/*.*)
fi
for name in "${names[@]}"; do
  mkdir -p -- "$out/$name"
  for mode in ${MODES:-turns planted}; do
    case $mode in
      turns) measure "$name" ;;
      *) record "$name" "$mode" ;;
    esac
  done
  printf '%5d s  %s  %s\n' "$SECONDS" "$name" "$(cat -- "$out/$name/turns.json")"
done
