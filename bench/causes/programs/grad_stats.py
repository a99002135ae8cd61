"""An EfficientNet of timm; the cause logs mean, spread and largest value of each gradient by hooks.

The fix measures all gradients at once.
"""
# causes: tiny_kernels, host_bound
import timm
import torch
from parts import DEVICE, image_loss, update, use_gpu
from torch import nn
from turns import Turns

BATCH, SIDE, CLASSES, KEPT = 96, 224, 1000, 20


class Watch:
    """Keeps the last statistics of each gradient, as a logger that watches a model does."""

    def __init__(self, turns: Turns, model: nn.Module) -> None:
        self.turns, self.model = turns, model
        counts = [parameter.numel() for parameter in model.parameters()]
        self.counts = torch.tensor(counts, device=DEVICE)
        self.log: dict[str, list[torch.Tensor]] = {}
        for name, parameter in model.named_parameters():
            parameter.register_hook(lambda gradient, name=name: self._measure(name, gradient))

    def _measure(self, name: str, gradient: torch.Tensor) -> None:
        if self.turns.planted:
            size = gradient.detach().abs()
            measured = torch.stack([size.mean(), size.square().mean().sqrt(), size.max()])
            self._keep(name, measured)

    def _keep(self, name: str, measured: torch.Tensor) -> None:
        self.log[name] = [*self.log.get(name, [])[-KEPT:], measured]

    def measure_all(self) -> None:
        """As the hooks do, for all gradients."""
        gradients = [parameter.grad for parameter in self.model.parameters()]
        norms = [torch.stack(torch._foreach_norm(gradients, order)) for order in (1, 2, torch.inf)]
        self._keep("all", torch.stack([norms[0] / self.counts, norms[1] / self.counts.sqrt(), norms[2]]))


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = timm.create_model("efficientnet_b0", num_classes=CLASSES)
    model = model.to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4, momentum=0.9)
    images = torch.randn(BATCH, 3, SIDE, SIDE, device=DEVICE)
    images = images.to(memory_format=torch.channels_last)
    labels = torch.randint(CLASSES, (BATCH,), device=DEVICE)
    watch = Watch(turns, model)
    while turns.step():
        update(optimizer, image_loss(model, images, labels))
        if not turns.planted:
            watch.measure_all()
