"""Lightning with a loader of three workers that is too slow: every third step waits."""

import sys, time
import torch, step_log
import lightning as L
from torch import nn
from lightning.pytorch.callbacks import Callback


class Images(torch.utils.data.Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        time.sleep(0.007)
        return torch.randn(3, 32, 32), index % 10


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        layers = []
        for a, b in ((3, 64), (64, 128), (128, 256)):
            layers += [nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(2)]
        self.net = nn.Sequential(*layers, nn.Flatten(), nn.Linear(256 * 16, 10))

    def training_step(self, batch, index):
        images, labels = batch
        return nn.functional.cross_entropy(self.net(images), labels)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01, momentum=0.9)


class Steps(Callback):
    def on_train_batch_start(self, *args, **more):
        if step_log._LINES:
            step_log._LINES[-1][1] = time.time_ns()
        step_log.begin()

    def on_train_end(self, *args, **more):
        step_log.end()


loader = torch.utils.data.DataLoader(
    Images(), batch_size=16, num_workers=3, persistent_workers=True
)
L.Trainer(
    max_steps=48,
    accelerator="gpu",
    devices=2,
    strategy="ddp",
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    callbacks=[Steps()],
).fit(Net(), loader)
