"""Lightning with DDP on images; its own loop calls optimizer.step with a closure."""

import os
import torch, watch
import lightning as L
from torch import nn
from lightning.pytorch.callbacks import Callback


class Images(torch.utils.data.Dataset):
    def __len__(self):
        return 8192

    def __getitem__(self, index):
        side = 16 if watch.SMALL else 64
        return torch.randn(3, side, side, generator=torch.Generator().manual_seed(index)), index % 10


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        layers = []
        wide = 8 if watch.SMALL else 128
        for a, b in ((3, wide), (wide, 2 * wide), (2 * wide, 4 * wide)):
            layers += [nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(2)]
        self.net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * wide, 10))

    def training_step(self, batch, index):
        images, labels = batch
        return nn.functional.cross_entropy(self.net(images), labels)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01, momentum=0.9)


class Steps(Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, index):
        watch.step(outputs["loss"])


loader = torch.utils.data.DataLoader(
    Images(), batch_size=8 if watch.SMALL else 64, num_workers=2, persistent_workers=True
)
L.Trainer(
    max_steps=watch.STEPS,
    accelerator="gpu" if watch.CUDA else "cpu",
    devices=int(os.environ.get("WORLD_SIZE", "2")),
    strategy="ddp",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
    callbacks=[Steps()],
).fit(watch.model(Net()), loader)
