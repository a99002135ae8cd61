"""A module replayed from a captured CUDA graph 50 times, and a graphed training of 12 steps."""

import torch
from torch import nn
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self, width=1024):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), nn.LayerNorm(width)
    def forward(self, x):
        return self.last(self.second(torch.relu(self.first(x))))
net = Net().cuda().half()
x = torch.randn(2048, 1024, device="cuda", dtype=torch.half)
with torch.no_grad():
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        net(x); net(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        net(x)
    for _ in range(50):
        graph.replay()
    torch.cuda.synchronize()
    for _ in range(10):
        net(x)
torch.cuda.synchronize()
model = Net().cuda().half()
graphed = torch.cuda.make_graphed_callables(model, (x.clone().requires_grad_(),))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
for step in range(12):
    optimizer.zero_grad()
    graphed(x.requires_grad_()).float().pow(2).mean().backward()
    optimizer.step()
torch.cuda.synchronize()
print("done", flush=True)
