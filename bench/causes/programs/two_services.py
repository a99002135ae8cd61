"""Two threads that describe images by ViTs (torchvision); the cause is that both wait for all of the GPU's work.

Then both prepare their next images at the same time. The fix is a wait for an event behind the own work.
"""
# causes: synchronization
import threading

import numpy as np
import torch
import torchvision
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns

BATCH, SIZE, CODE = 32, 224, 1024


class Service:
    """Images of a queue to vectors."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        with torch.device(DEVICE):
            model = torchvision.models.vit_l_16()
        model.heads = nn.Identity()
        self.model = model.bfloat16().eval()
        self.images = np.random.default_rng(0).integers(
            256, size=(BATCH, 3, SIZE, SIZE), dtype=np.uint8
        )
        self.scale = np.array([1 / 58.4, 1 / 57.1, 1 / 57.4], np.float32)[:, None, None]
        self.ready = torch.empty(BATCH, 3, SIZE, SIZE).pin_memory()
        self.found = torch.empty(BATCH, CODE).pin_memory()
        self.event = torch.cuda.Event()

    @torch.inference_mode()
    def serve(self) -> np.ndarray:
        """The vectors of the next images."""
        np.multiply(self.images, self.scale, out=self.ready.numpy())
        images = self.ready.to(DEVICE, non_blocking=True).bfloat16()
        self.found.copy_(self.model(images).float(), non_blocking=True)
        if self.turns.planted:
            torch.cuda.synchronize()
        else:
            self.event.record()
            self.event.synchronize()
        vectors = self.found.numpy()
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def run(turns: Turns) -> None:
    use_gpu(turns)
    first, second = Service(turns), Service(turns)
    is_over = threading.Event()

    def serve_beside() -> None:
        while not is_over.is_set():
            second.serve()

    beside = threading.Thread(target=serve_beside)
    beside.start()
    while turns.step():
        first.serve()
    is_over.set()
    beside.join()
