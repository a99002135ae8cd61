"""A recommender; the cause looks embeddings up on the CPU and copies them."""
# causes: idle, pageable_copy
import torch
from parts import DEVICE, use_gpu
from torch import nn
from turns import Turns


def run(turns: Turns) -> None:
    use_gpu(turns)
    torch.set_num_threads(4)
    on_cpu = nn.EmbeddingBag(200_000, 128, mode="sum").requires_grad_(requires_grad=False)
    on_gpu = (
        nn.EmbeddingBag(200_000, 128, mode="sum").requires_grad_(requires_grad=False).to(DEVICE)
    )
    tower = nn.Sequential(
        nn.Linear(26 * 128, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, 1)
    ).to(DEVICE)
    optimizer = torch.optim.Adagrad(tower.parameters(), lr=1e-2)
    ids = torch.randint(200_000, (8192 * 26, 4))
    ids_on_gpu = ids.to(DEVICE)
    while turns.step():
        if turns.planted:
            features = on_cpu(ids).to(DEVICE)
        else:
            features = on_gpu(ids_on_gpu)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = tower(features.view(8192, -1)).square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
