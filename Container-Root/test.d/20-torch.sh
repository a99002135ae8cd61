#!/usr/bin/env bash
# PyTorch is the one of the manifest, and two processes sum a tensor over gloo.
# shellcheck source=lib.sh
source "$(dirname -- "$0")/lib.sh"
needs torch

cat >"${work}/program.py" <<'END'
import json
import os

import numpy
import nvtx
import torch
import torch.distributed as dist

with nvtx.annotate("all-reduce"):
    dist.init_process_group("gloo")
    tensor = torch.full((4,), float(dist.get_rank() + 1))
    dist.all_reduce(tensor)
    assert tensor.tolist() == [3.0] * 4, tensor
    assert numpy.allclose(tensor.numpy(), 3.0)
    dist.destroy_process_group()
if os.environ["RANK"] == "0":
    print(json.dumps({"torch": torch.__version__, "cuda": torch.version.cuda}))
END
export MASTER_ADDR=127.0.0.1 MASTER_PORT=29411 WORLD_SIZE=2
RANK=1 timeout 120 python3 "${work}/program.py" >"${work}/rank1" 2>&1 &
RANK=0 timeout 120 python3 "${work}/program.py" >"${work}/rank0" 2>"${work}/errors" ||
    fail "rank 0: $(tail -n 1 "${work}/errors")"
wait $! || fail "rank 1: $(tail -n 1 "${work}/rank1")"
version=$(manifest components.torch)
grep -qF "\"torch\": \"${version%%+*}" "${work}/rank0" || # what follows + is the builder's
    fail "the manifest says torch ${version}, the program $(cat "${work}/rank0")"
pass "gloo all-reduce of two processes, $(cat "${work}/rank0")"
