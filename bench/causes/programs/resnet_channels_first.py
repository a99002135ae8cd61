"""ResNet-50 (torchvision) trained in bf16; the cause keeps the model and its images in NCHW.

cuDNN then transposes the inputs and the results of its convolutions. The fix is `channels_last`.
"""
# causes: channels_first
import torch
import torchvision
from parts import DEVICE, image_loss, update, use_gpu
from turns import Turns

BATCH, SIZE, CLASSES = 128, 224, 1000


def run(turns: Turns) -> None:
    use_gpu(turns)
    first = torchvision.models.resnet50(num_classes=CLASSES).to(DEVICE)
    last = torchvision.models.resnet50(num_classes=CLASSES).to(
        DEVICE, memory_format=torch.channels_last
    )
    optimizers = [
        torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
        for model in (first, last)
    ]
    images = torch.rand(BATCH, 3, SIZE, SIZE, device=DEVICE)
    images_last = images.contiguous(memory_format=torch.channels_last)
    labels = torch.randint(CLASSES, (BATCH,), device=DEVICE)
    while turns.step():
        if turns.planted:
            update(optimizers[0], image_loss(first, images, labels))
        else:
            update(optimizers[1], image_loss(last, images_last, labels))
