// Heat in a chip under a load that changes; the cause captures and instantiates a CUDA graph in each step.
// causes: idle, host_bound
#include "turns.h"

constexpr int SIDE = 512, CELLS = SIDE * SIDE, SWEEPS = 3000;

__global__ void relax(const float *now, float *next, const float *load) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < 1 || y < 1 || x >= SIDE - 1 || y >= SIDE - 1) return;
  const int i = y * SIDE + x;
  const float source = (x / 64 + y / 64) % 3 ? 0 : *load;
  next[i] = now[i] + 0.2f * (now[i - 1] + now[i + 1] + now[i - SIDE] + now[i + SIDE] - 4 * now[i]) + source;
}

static cudaGraphExec_t make_graph(cudaStream_t stream, float *one, float *other, const float *load) {
  cudaGraph_t graph;
  cudaGraphExec_t ready;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  for (int sweep = 0; sweep < SWEEPS; sweep += 2) {
    relax<<<dim3(SIDE / 32, SIDE / 8), dim3(32, 8), 0, stream>>>(one, other, load);
    relax<<<dim3(SIDE / 32, SIDE / 8), dim3(32, 8), 0, stream>>>(other, one, load);
  }
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&ready, graph, 0));
  CHECK(cudaGraphDestroy(graph));
  return ready;
}

int main(int, char **argv) {
  Turns turns(argv[1]);
  float *one, *other, *load, *asked, *seen;
  for (float **field : {&one, &other}) {
    CHECK(cudaMalloc(field, sizeof(float) * CELLS));
    CHECK(cudaMemset(*field, 0, sizeof(float) * CELLS));
  }
  CHECK(cudaMalloc(&load, sizeof(float)));
  CHECK(cudaMallocHost(&asked, sizeof(float)));
  CHECK(cudaMallocHost(&seen, sizeof(float)));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  const cudaGraphExec_t kept = make_graph(stream, one, other, load);
  *asked = 0.01f, *seen = 0;
  while (turns.step()) {
    // The load falls where the middle of the chip is hot.
    *asked = *seen > 50 ? 0.0f : 0.01f;
    CHECK(cudaMemcpyAsync(load, asked, sizeof(float), cudaMemcpyHostToDevice, stream));
    const cudaGraphExec_t graph = turns.planted ? make_graph(stream, one, other, load) : kept;
    CHECK(cudaGraphLaunch(graph, stream));
    CHECK(cudaMemcpyAsync(seen, one + CELLS / 2 + SIDE / 2, sizeof(float), cudaMemcpyDeviceToHost, stream));
    CHECK(cudaStreamSynchronize(stream));
    if (turns.planted) CHECK(cudaGraphExecDestroy(graph));
  }
  fprintf(stderr, "%g\n", *seen);
  turns.print();
}
