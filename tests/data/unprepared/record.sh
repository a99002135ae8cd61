#!/usr/bin/env bash
# Record the programs beside this file on a machine with two or more GPUs: record.sh OUT [PROGRAM...]
#
# NSYS names the nsys to record with. NCCL, torch and NVSHMEM leave NVLink multicast alone: on a
# host whose GPUs others share it can put them out of service.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
out=${1:?usage: record.sh OUT [PROGRAM...]}
shift
chosen=" $* "
profile=$here/../../../Container-Root/agent/profile_ranks.py
nsys=${NSYS:-nsys}
gpus=$(nvidia-smi --list-gpus | wc -l)
all=$(seq -s, 0 $((gpus - 1)))
readonly here out chosen profile nsys gpus all
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
export PYTHONPATH=$here/programs USE_LIBUV=0 HF_HUB_OFFLINE=1

light=("--trace=cuda,nvtx" --sample=none --cpuctxsw=none --cuda-event-trace=false
  --cuda-graph-trace=graph:host-only --wait=primary)

# record NAME PROCESSES VISIBLE PROGRAM [WORD...] [-- NSYS_OPTION...]
record() {
  local -r name=$1 processes=$2 visible=$3 program=$4
  shift 4
  [[ $chosen == "  " || $chosen == *" $name "* ]] || return 0
  local words=()
  while (($#)) && [[ $1 != -- ]]; do words+=("$1"); shift; done
  (($# == 0)) || shift
  mkdir -p -- "$out/$name"
  STEP_LOG_DIR=$out/$name CUDA_VISIBLE_DEVICES=$visible timeout 150 \
    python3 "$profile" --processes="$processes" --output="$out/$name" --annotate=none --nsys="$nsys" \
    "${light[@]}" "$@" -- python3 "$here/programs/$program.py" ${words[@]+"${words[@]}"} \
    >"$out/$name/output.log" 2>&1 || echo "$name: exit code $?; see $out/$name/output.log" >&2
}

record ddp_item "$gpus" "$all" ddp_item
record straggler_compute "$gpus" "$all" straggler --by compute
record straggler_loader "$gpus" "$all" straggler --by loader
record trainer "$gpus" "$all" trainer
record lightning_loader "$gpus" "$all" lightning_loader
record fsdp2_compile "$gpus" "$all" fsdp2_compile
record jax_data_parallel 1 "$all" jax_data_parallel
record pipeline "$gpus" "$all" pipeline
record experts "$gpus" "$all" experts
record tensor_parallel "$gpus" "$all" tensor_parallel
record symmetric_memory "$gpus" "$all" symmetric_memory
record windows "$gpus" "$all" windows -- \
  --capture-range=cudaProfilerApi --capture-range-end=repeat:3 --kill=none
record inference_graphs 1 0 inference_graphs
record single_eval 1 0 single_eval
record collate 1 0 collate

find "$out" -name '*.nsys-rep' | while read -r report; do
  "$nsys" export --type=sqlite --include-blobs=true --output="${report%.nsys-rep}.sqlite" "$report"
done
