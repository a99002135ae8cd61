"""A training on the torch of tests/data/annotated/doubles: STEPS, SECONDS of each, EXIT CODE.

A fourth word names a file whose existence ends it before.
"""

import sys
import time
from pathlib import Path

import torch


class Net(torch.nn.Module):  # type: ignore[misc]
    def forward(self, *_: object) -> object:
        time.sleep(float(sys.argv[2]))
        return torch.Tensor()


model = Net()
model.register_parameter("weight", torch.Tensor())
optimizer = torch.optim.Optimizer(model.parameters())
for step in range(int(sys.argv[1])):
    model()
    torch.autograd.backward()
    optimizer.step()
    print("step", step, flush=True)
    if any(Path(file).exists() for file in sys.argv[4:]):
        break
raise SystemExit(int(sys.argv[3]))
