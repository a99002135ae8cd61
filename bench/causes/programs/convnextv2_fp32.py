"""ConvNeXt V2 (timm) trained in fp32 by the precision of PyTorch's defaults; the fix allows TF32 in matrix products."""
# causes: no_tensor_cores
import timm
import torch
import torch.nn as nn
from parts import repeat, use_gpu
from torch.utils.data import DataLoader, RandomSampler, TensorDataset
from turns import Turns

NUM_CLASSES = 120


def make_loader(batch_size=48, size=160):
    images = torch.randn(512, 3, size, size)
    labels = torch.randint(NUM_CLASSES, (512,))
    dataset = TensorDataset(images, labels)
    sampler = RandomSampler(dataset, replacement=True, num_samples=1_000_000)
    return DataLoader(dataset, batch_size, sampler=sampler, num_workers=4, pin_memory=True)


def train_one_batch(model, criterion, optimizer, images, labels):
    optimizer.zero_grad(set_to_none=True)
    loss = criterion(model(images), labels)
    loss.backward()
    optimizer.step()
    return loss.detach()


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = timm.create_model("convnextv2_tiny", pretrained=False, num_classes=NUM_CLASSES).cuda()
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.05, fused=True)
    batches = repeat(make_loader())
    total = torch.zeros((), device="cuda")

    while turns.step():
        torch.backends.cuda.matmul.allow_tf32 = not turns.planted
        images, labels = next(batches)
        images = images.cuda(non_blocking=True)
        labels = labels.cuda(non_blocking=True)
        total += train_one_batch(model, criterion, optimizer, images, labels)
