"""DDP in which one rank is late: --by compute (rank 0 computes more), loader (its loader sleeps),
or period (every fourth step of rank 1 waits 80 ms)."""

import argparse, time
import torch, step_log
from torch.nn.parallel import DistributedDataParallel
from parts import Decoder, loss_of, start

parser = argparse.ArgumentParser()
parser.add_argument("--by", required=True)
by = parser.parse_args().by
rank, world, device = start()


class Tokens(torch.utils.data.Dataset):
    def __len__(self):
        return 26 * 16

    def __getitem__(self, index):
        if by == "loader" and rank == 0:
            time.sleep(0.002)
        return torch.randint(0, 4096, (513,))


model = DistributedDataParallel(Decoder(2, 2048).to(device))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
loader = torch.utils.data.DataLoader(Tokens(), batch_size=16, pin_memory=True)
extra = torch.randn(8192, 8192, device=device)
batches = iter(loader)
step = 0
while True:
    step_log.begin()
    try:
        tokens = next(batches)
    except StopIteration:
        step_log._LINES.pop()
        break
    tokens = tokens.to(device, non_blocking=True)
    if by == "period" and rank == 1 and step % 4 == 3:
        time.sleep(0.08)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = loss_of(model, tokens)
    if by == "compute" and rank == 0:
        for _ in range(2):
            loss = loss + 0 * (extra @ extra).sum()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    step += 1
    step_log.end()
print(rank, float(loss))
torch.distributed.destroy_process_group()
