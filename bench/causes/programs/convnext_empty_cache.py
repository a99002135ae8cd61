"""ConvNeXt from torchvision; the cause empties the allocator's cache in each step."""
# causes: allocation
import torch
import torchvision
from parts import DEVICE, image_loss, update, use_gpu
from turns import Turns


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = torchvision.models.convnext_tiny().to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    images = torch.randn(48, 3, 224, 224, device=DEVICE)
    images = images.to(memory_format=torch.channels_last)
    labels = torch.randint(1000, (48,), device=DEVICE)
    while turns.step():
        update(optimizer, image_loss(model, images, labels))
        if turns.planted:
            torch.cuda.empty_cache()
