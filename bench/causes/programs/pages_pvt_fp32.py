"""Scanned pages sorted into kinds by a PVT v2 (timm) in fp32; the cause is matrix products without TF32.

That is PyTorch's default. The fix is `torch.set_float32_matmul_precision("high")`.
"""
# causes: no_tensor_cores
import timm
import torch
from parts import DEVICE, use_gpu
from turns import Turns

PAGES, SIZE, KINDS, BATCHES = 128, 224, 16, 4


def make_pages() -> torch.Tensor:
    """Batches of pages in grey, in pinned memory."""
    shape = (BATCHES, PAGES, 1, SIZE, SIZE)
    return torch.randint(256, shape, dtype=torch.uint8).pin_memory()


def prepare(pages: torch.Tensor) -> torch.Tensor:
    """The pages on the GPU, as numbers around zero in three equal channels."""
    pixels = pages.to(DEVICE, non_blocking=True).float().div_(127.5).sub_(1)
    return pixels.expand(-1, 3, -1, -1).contiguous()


@torch.no_grad()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model = timm.create_model("pvt_v2_b2", pretrained=False, num_classes=KINDS).to(DEVICE).eval()
    batches = make_pages()
    steps, totals = 0, torch.zeros(KINDS, device=DEVICE)
    while turns.step():
        torch.set_float32_matmul_precision("highest" if turns.planted else "high")
        scores = model(prepare(batches[steps % BATCHES]))
        totals += scores.softmax(-1).sum(0)
        steps += 1
