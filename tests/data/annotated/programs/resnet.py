"""torchvision's ResNet-50 with half precision and GradScaler, one GPU; GPU-bound with BATCH=384."""

import os
import torch, torchvision, watch

rank, world, device = watch.start()
model = torchvision.models.resnet18() if watch.SMALL else torchvision.models.resnet50()
model = watch.model(model.to(device, memory_format=torch.channels_last))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scaler = torch.amp.GradScaler(device.type, init_scale=2.0**40, enabled=watch.CUDA)
batch = int(os.environ.get("BATCH", "96"))
size = (2, 3, 64, 64) if watch.SMALL else (batch, 3, 224, 224)
criterion = torch.nn.CrossEntropyLoss()
for step in range(watch.STEPS):
    images = torch.randn(size, device=device).contiguous(memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, size[:1], device=device)
    with watch.autocast(device, torch.float16 if watch.CUDA else torch.bfloat16):
        loss = criterion(model(images), labels)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    watch.step(loss)
