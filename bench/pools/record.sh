#!/usr/bin/env bash
# Record a pool for bench/ci_bench.py on a machine with a GPU: record.sh OUT [PAIRS PARTS]
#
# OUT/pool-N.json is of one `gpu-profile ci` of PAIRS pairs (6); there are PARTS of them (4). The change is
# a product of 3 % more GPU time. GPU_PROFILE names the program, POOL_SECONDS the most seconds of all.
# NVLink multicast stays off: on a host whose GPUs others share it can put them out of service.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
out=$(realpath -m -- "${1:?usage: record.sh OUT [PAIRS PARTS]}")
readonly here out pairs=${2:-6} parts=${3:-4} limit=${POOL_SECONDS:-3600}
export NCCL_NVLS_ENABLE=0 TORCH_SYMM_MEM_DISABLE_MULTICAST=1 NVSHMEM_DISABLE_NVLS=1
export PYTHONPATH=$here/../../Container-Root/agent/annotate${PYTHONPATH:+:$PYTHONPATH}

work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
mkdir -p -- "$out"
python3 "$here/products.py" compile "$work/products.cubin"

git=(git -C "$work/code" -c user.name=pool -c user.email=pool@localhost)
git init --quiet --initial-branch=main "$work/code"
cp -- "$here/products.py" "$work/code/"
"${git[@]}" add .
"${git[@]}" commit --quiet --message='the base'
"${git[@]}" checkout --quiet -b change
sed -i 's/^INNER = 1024\b/INNER = 1056/' "$work/code/products.py"
"${git[@]}" commit --quiet --all --message='a product of 3 % more'

cd -- "$work/code"
for ((part = 1; part <= parts; ++part)); do
  code=0
  timeout "$((limit > SECONDS ? limit - SECONDS : 1))" \
    "${GPU_PROFILE:-gpu-profile}" ci --on=host --base=main "--pairs=$pairs" "--set=REPORT_DIR=$work" \
    --format=json "--output=$out/pool-$part.json" -- python3 products.py "$work/products.cubin" \
    >"$out/pool-$part.log" 2>&1 || code=$? # 8: slower, as it is
  printf '%5d s  part %d: exit code %d: %s\n' "$SECONDS" "$part" "$code" "$(tail -n 1 -- "$out/pool-$part.log")"
done
