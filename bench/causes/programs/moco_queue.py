"""Contrastive learning (MoCo); the cause leaves the queue of negatives on the CPU."""
# causes: pageable_copy
import torch
import torchvision
from parts import DEVICE, update, use_gpu
from torch import nn
from turns import Turns

BATCH, SIZE, WIDTH, QUEUE, WARMTH = 256, 128, 256, 65_536, 0.07


def make_encoder() -> nn.Module:
    encoder = torchvision.models.resnet18(num_classes=WIDTH)
    return encoder.to(DEVICE, memory_format=torch.channels_last)


class Moco(nn.Module):
    """An encoder, its slow twin, and the keys that the twin gave to earlier images."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.twin = make_encoder(), make_encoder()
        self.twin.load_state_dict(self.encoder.state_dict())
        # A plain attribute: `to` leaves it where it was made.
        self.queue = nn.functional.normalize(torch.randn(QUEUE, WIDTH), dim=1)
        self.register_buffer("buffer", self.queue.to(DEVICE))
        self.place = 0

    def forward(self, queries: torch.Tensor, keys: torch.Tensor, on_host: bool) -> torch.Tensor:
        """The loss; the keys take the place of the oldest ones."""
        queue = self.queue if on_host else self.buffer
        with torch.no_grad():
            mine, other = list(self.encoder.parameters()), list(self.twin.parameters())
            torch._foreach_lerp_(other, mine, 0.01)
            positive = nn.functional.normalize(self.twin(keys).float(), dim=1)
        query = nn.functional.normalize(self.encoder(queries).float(), dim=1)
        negatives = query @ queue.to(DEVICE, copy=True).T
        scores = torch.cat([(query * positive).sum(1, keepdim=True), negatives], 1) / WARMTH
        queue[self.place : self.place + BATCH] = positive.to(queue.device)
        self.place = (self.place + BATCH) % QUEUE
        labels = torch.zeros(BATCH, dtype=torch.long, device=DEVICE)
        return nn.functional.cross_entropy(scores, labels)


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Moco()
    optimizer = torch.optim.SGD(model.encoder.parameters(), lr=0.03, momentum=0.9, fused=True)
    images = torch.randn(2, BATCH, 3, SIZE, SIZE, device=DEVICE)
    views = [view.to(memory_format=torch.channels_last) for view in images]
    while turns.step():
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = model(*views, turns.planted)
        update(optimizer, loss)
