"""A network of spiking neurons in CuPy, its moments launched from Python; the fix replays a CUDA graph."""
# causes: host_bound, tiny_kernels
import cupy as cp
from turns import Turns

NEURONS, INPUTS, MOMENTS, THREADS = 20_480, 96, 250, 128

feel = cp.RawKernel(
    r"""
extern "C" __global__ void feel(
    const int* sources, const float* weights, const float* sent, float* current, int neurons, int inputs) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= neurons) return;
  float sum = 0.8f * current[i];
  for (int input = 0; input < inputs; ++input)
    sum += weights[input * neurons + i] * sent[sources[input * neurons + i]];
  current[i] = sum;
}
""",
    "feel",
)
fire = cp.ElementwiseKernel(
    "float32 current, int32 moment, raw int32 trial",
    "float32 volts, int16 rest, bool fired",
    """
    unsigned noise = (i + 1) * 2654435761u ^ (moment + 1) * 2246822519u ^ (trial[0] + 1) * 3266489917u;
    noise ^= noise >> 15, noise *= 2246822519u, noise ^= noise >> 13;
    volts += rest > 0 ? 0.0f : 0.05f * (current - volts) + 0.12f * (noise >> 8) * 5.9604645e-8f;
    fired = volts > 1;
    volts = fired ? 0.0f : volts;
    rest = fired ? 4 : max(rest - 1, 0);
    """,
    "fire",
)
tire = cp.ElementwiseKernel(
    "bool fired", "float32 store, float32 sent",
    "sent = fired ? 0.4f * store : 0.0f; store += 0.01f * (1 - store) - sent", "tire",
)  # fmt: skip
count = cp.ElementwiseKernel("bool fired", "int32 spikes", "spikes += fired", "count")


class Network:
    """Neurons, each with inputs from others."""

    def __init__(self) -> None:
        self.sources = cp.random.randint(0, NEURONS, (INPUTS, NEURONS)).astype(cp.int32)
        self.weights = cp.random.standard_normal((INPUTS, NEURONS), dtype=cp.float32) * 0.3
        self.current, self.volts, self.sent = (cp.zeros(NEURONS, cp.float32) for _ in range(3))
        self.store, self.rest = cp.ones(NEURONS, cp.float32), cp.zeros(NEURONS, cp.int16)
        self.fired, self.spikes = cp.zeros(NEURONS, cp.bool_), cp.zeros(NEURONS, cp.int32)
        self.trial = cp.zeros(1, cp.int32)

    def run_trial(self) -> None:
        """Go through the moments of a trial, and count the spikes of each neuron."""
        self.spikes.fill(0)
        for moment in range(MOMENTS):
            inputs = self.sources, self.weights, self.sent, self.current, cp.int32(NEURONS), cp.int32(INPUTS)
            feel((NEURONS // THREADS,), (THREADS,), inputs)
            fire(self.current, moment, self.trial, self.volts, self.rest, self.fired)
            tire(self.fired, self.store, self.sent)
            count(self.fired, self.spikes)
        cp.add(self.trial, 1, out=self.trial)


def run(turns: Turns) -> None:
    cp.random.seed(0)
    stream = cp.cuda.Stream(non_blocking=True)
    turns.synchronize = stream.synchronize
    network = Network()
    cp.cuda.Device().synchronize()
    graph, rates = None, cp.zeros(NEURONS)
    with stream:
        network.run_trial()
        while turns.step():
            if turns.planted:
                network.run_trial()
            else:
                if graph is None:
                    stream.begin_capture()
                    network.run_trial()
                    graph = stream.end_capture()
                graph.launch(stream)
            rates += network.spikes
