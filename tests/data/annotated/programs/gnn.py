"""torch-geometric: graph attention over a made-up graph, one GPU."""

import torch, watch
from torch_geometric.nn import GATConv, SAGEConv

rank, world, device = watch.start()
nodes, edges, wide = (200, 900, 16) if watch.SMALL else (60000, 900000, 256)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = GATConv(wide, wide // 4, heads=4)
        self.second = SAGEConv(wide, wide)
        self.last = torch.nn.Linear(wide, 16)

    def forward(self, x, links):
        x = torch.relu(self.first(x, links))
        return self.last(torch.relu(self.second(x, links)))


model = watch.model(Net().to(device))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
x = torch.randn(nodes, wide, device=device)
links = torch.randint(0, nodes, (2, edges), device=device)
labels = torch.randint(0, 16, (nodes,), device=device)
for step in range(watch.STEPS):
    loss = torch.nn.functional.cross_entropy(model(x, links), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    watch.step(loss)
