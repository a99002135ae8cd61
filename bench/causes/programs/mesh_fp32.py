"""Air around a wing moved by a graph network on its mesh (torch_geometric); the cause is fp32 products without TF32."""
# causes: no_tensor_cores
import torch
from parts import DEVICE, use_gpu
from torch import nn
from torch_geometric.utils import scatter
from turns import Turns

NODES, EDGES, WIDTH, LAYERS, FEATURES = 60_000, 400_000, 128, 10, 8


def make_inner(inputs: int, outputs: int = WIDTH) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, WIDTH), nn.ReLU(), nn.Linear(WIDTH, outputs))


class Layer(nn.Module):
    """New features of the edges from their ends, and of the nodes from their edges."""

    def __init__(self) -> None:
        super().__init__()
        self.edge, self.node = make_inner(3 * WIDTH), make_inner(2 * WIDTH)
        self.edge_norm, self.node_norm = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(
        self, x: torch.Tensor, lengths: torch.Tensor, edges: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        start, end = edges
        ends = torch.cat([x[start], x[end], lengths], 1)
        lengths = lengths + self.edge_norm(self.edge(ends))
        sums = scatter(lengths, end, dim=0, dim_size=len(x), reduce="sum")
        return x + self.node_norm(self.node(torch.cat([x, sums], 1))), lengths


class Network(nn.Module):
    """The change of the nodes' features over a time step."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.first_edge = make_inner(FEATURES), make_inner(3)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.last = make_inner(WIDTH, FEATURES)

    def forward(
        self, state: torch.Tensor, ways: torch.Tensor, edges: torch.Tensor
    ) -> torch.Tensor:
        x, lengths = self.first(state), self.first_edge(ways)
        for layer in self.layers:
            x, lengths = layer(x, lengths, edges)
        return self.last(x)


@torch.inference_mode()
def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Network().to(DEVICE).eval()
    edges = torch.randint(NODES, (2, EDGES), device=DEVICE)
    ways = torch.randn(EDGES, 3, device=DEVICE)
    state = torch.randn(NODES, FEATURES, device=DEVICE)
    while turns.step():
        torch.set_float32_matmul_precision("highest" if turns.planted else "high")
        state = (state + 0.01 * model(state, ways, edges)).clamp(-5, 5)
