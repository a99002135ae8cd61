"""Image classification; the cause reads the loss and the norms of the gradients in each step."""
# causes: synchronization
import torch
import torchvision
from parts import DEVICE, image_loss, update, use_gpu
from turns import Turns


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = torchvision.models.resnet50().to(DEVICE, memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    images = torch.randn(128, 3, 224, 224, device=DEVICE)
    images = images.to(memory_format=torch.channels_last)
    labels = torch.randint(1000, (128,), device=DEVICE)
    while turns.step():
        loss = image_loss(model, images, labels)
        if turns.planted and loss.item() > 1e4:
            break
        update(optimizer, loss)
        norms = torch.stack([p.grad.norm() for p in model.parameters()])
        if turns.planted:
            norms.cpu()
