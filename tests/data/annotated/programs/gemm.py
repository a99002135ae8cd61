"""Products of matrices of known size: the rate by CUDA events, to hold against module_flops."""

import json

import torch
from torch import nn

CASES = [
    ("bf16_4096", 4096, 4096, 4096, torch.bfloat16, False),
    ("bf16_8192", 8192, 8192, 8192, torch.bfloat16, False),
    ("bf16_wide", 16384, 1024, 4096, torch.bfloat16, False),
    ("bf16_deep", 2048, 16384, 2048, torch.bfloat16, False),
    ("fp16_8192", 8192, 8192, 8192, torch.float16, False),
    ("tf32_4096", 4096, 4096, 4096, torch.float32, True),
    ("fp32_4096", 4096, 4096, 4096, torch.float32, False),
]
TIMES = 20


class Product(nn.Module):
    def __init__(self, m, k, n, dtype, tf32):
        super().__init__()
        self.tf32, self.rate = tf32, 0.0
        self.flops = 2 * m * k * n
        self.register_buffer("left", torch.randn(m, k, device="cuda", dtype=dtype))
        self.register_buffer("right", torch.randn(k, n, device="cuda", dtype=dtype))

    def forward(self):
        torch.backends.cuda.matmul.allow_tf32 = self.tf32
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(TIMES):
            torch.mm(self.left, self.right)
        end.record()
        end.synchronize()
        self.rate = self.flops * TIMES / begin.elapsed_time(end) / 1e9


class Sweep(nn.Module):
    def __init__(self):
        super().__init__()
        self.cases = nn.ModuleDict({name: Product(*case) for name, *case in CASES})

    def forward(self):
        for case in self.cases.values():
            torch.cuda._sleep(50_000_000)  # some 25 ms, in which the host launches all products
            case()


model = Sweep()
with torch.no_grad():
    model()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStart()
    model()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()
print("GEMM", json.dumps({name: round(case.rate, 2) for name, case in model.cases.items()}))
