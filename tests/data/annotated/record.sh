#!/usr/bin/env bash
# Run the programs beside this file on a machine with two GPUs, with and without marks:
#   record.sh OUT PART...
# PART record: reports with marks of modules, and of each leaf the GPU time that torch.profiler
# measures; leaves: the same of one process, without collectives beside the kernels, with the
# reference twice (leaves.py compares them); equal: losses and graph breaks without marks (twice),
# with steps and with modules; cost: step times of light, steps and modules in turns.
# NSYS names the nsys. NCCL, torch and NVSHMEM leave NVLink multicast alone: on a host whose GPUs
# others share it can put them out of service.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
out=${1:?usage: record.sh OUT PART...}
shift
agent=$here/../../../Container-Root/agent
nsys=${NSYS:-nsys}
readonly here out agent nsys
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
readonly programs=$here/programs:$here/../unprepared/programs  # parts.py is with the latter
export PYTHONPATH=$programs USE_LIBUV=0 HF_HUB_OFFLINE=1 PYTHONUNBUFFERED=1

light=(--trace="${TRACE:-cuda,nvtx}" --sample=none --cpuctxsw=none --wait=primary)
[[ ${TRACE:-cuda} != *cuda* ]] || light+=(--cuda-event-trace=false --cuda-graph-trace=node)
two=(ddp checkpointed fsdp2_compile trainer lightning_ddp pipeline)
one=(resnet gnn compiled host_bound)

# run NAME LEVEL PROCESSES [NSYS_OPTION...]: one program; its output goes to OUT/NAME/output.log
run() {
  local -r name=$1 level=$2 processes=$3 program=${1%%.*}
  shift 3
  mkdir -p -- "$out/$name"
  local command=(python3 "$agent/profile_ranks.py" --output="$out/$name")
  ((processes == 1)) || command+=(--processes="$processes")
  if [[ $level == bare ]]; then
    command+=(--plain)
  else
    command+=(--annotate="$level" --nsys="$nsys" "${light[@]}" "$@")
  fi
  timeout 75 "${command[@]}" -- python3 "$here/programs/$program.py" >"$out/$name/output.log" 2>&1 ||
    echo "$name: exit code $?; see $out/$name/output.log" >&2
}

# each COMMAND: the programs of two processes one by one, those of one two at a time
each() {
  local program
  for program in "${two[@]}"; do
    [[ " ${PROGRAMS:-$program} " != *" $program "* ]] || "$@" "$program" 2
  done
  local pids=() gpu=0
  for program in "${one[@]}"; do
    [[ " ${PROGRAMS:-$program} " == *" $program "* ]] || continue
    (export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-$gpu} && "$@" "$program" 1) &
    pids+=($!)
    gpu=$((1 - gpu))
    ((gpu == 1)) || { wait "${pids[@]}"; pids=(); }
  done
  ((${#pids[@]} == 0)) || wait "${pids[@]}"
}

part_record() {
  local window=(--capture-range=cudaProfilerApi)
  [[ ${TRACE:-cuda} == *cuda* ]] || window=(--capture-range=nvtx --nvtx-capture=capture@gpu-profile)
  (run "$1" modules "$2" --steps="${WINDOW:-12:16}" "${window[@]}" --capture-range-end=stop --kill=none)
  (REFERENCE=$out/$1 run "$1.reference" bare "$2")
}

part_leaves() {
  local -x RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 MASTER_ADDR=127.0.0.1 MASTER_PORT=${MASTER_PORT:-29600}
  local -x TRACED=16 WINDOW=8:24 STEPS=26
  part_record "$1" 1
  (REFERENCE=$out/$1/again run "$1.again" bare 1)
}

part_equal() {
  local level pids=()
  export DETERMINISTIC=1 STEPS=${EQUAL_STEPS:-12}
  for level in bare bare2 steps modules; do
    (run "$1.$level" "${level%2}" "$2") &
    pids+=($!)
  done
  wait "${pids[@]}"
}

part_cost() {
  local level turn
  export STEPS=${COST_STEPS:-60}
  for turn in 1 2 3; do
    for level in none steps modules; do (run "$1.$level.$turn" "$level" "$2"); done
  done
}

for part in "$@"; do
  each "part_$part"
done
for report in "$out"/*/*.nsys-rep; do
  [[ -e $report ]] || continue
  [[ $(basename -- "$(dirname -- "$report")") != *.* ]] || { rm -- "$report"; continue; }
  [[ -e ${report%.nsys-rep}.sqlite ]] ||
    "$nsys" export --type=sqlite --include-blobs=true --output="${report%.nsys-rep}.sqlite" "$report" >/dev/null
done
grep -ah '^WATCH\|^\[[0-9]*\] WATCH' "$out"/*/output.log >"$out/watch.txt" || true
