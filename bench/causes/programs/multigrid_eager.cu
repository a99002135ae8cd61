// The pressure of a flow by multigrid; the cause launches each sweep by itself, the fix replays a CUDA graph.
// causes: host_bound, tiny_kernels
#include "turns.h"

constexpr int SIDE = 2048, LEVELS = 8, CYCLES = 6, SWEEPS = 4;

__device__ float around(const float *x, int n, int i, int j) {
  const float up = i ? x[(i - 1) * n + j] : 0, down = i < n - 1 ? x[(i + 1) * n + j] : 0;
  const float left = j ? x[i * n + j - 1] : 0, right = j < n - 1 ? x[i * n + j + 1] : 0;
  return up + down + left + right;
}

// One half of a Gauss-Seidel sweep, over the cells of one colour.
__global__ void smooth(float *x, const float *b, int n, int colour) {
  const int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && j < n && ((i + j) & 1) == colour) x[i * n + j] = 0.25f * (around(x, n, i, j) + b[i * n + j]);
}

// What is left of b, summed over four cells.
__global__ void restrict_rest(const float *x, const float *b, float *coarse, int n) {
  const int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n / 2 || j >= n / 2) return;
  float sum = 0;
  for (int k = 0; k < 4; ++k) {
    const int y = 2 * i + k / 2, x0 = 2 * j + k % 2;
    sum += b[y * n + x0] + around(x, n, y, x0) - 4 * x[y * n + x0];
  }
  coarse[i * (n / 2) + j] = sum;
}

__global__ void add_coarse(float *x, const float *coarse, int n) {
  const int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n && j < n) x[i * n + j] += coarse[i / 2 * (n / 2) + j / 2];
}

struct Level {
  float *x, *b;
  int n;
  dim3 blocks() const { return dim3((n + 31) / 32, (n + 7) / 8); }
};

void sweep(const Level &level, cudaStream_t stream) {
  for (int half = 0; half < 2 * SWEEPS; ++half)
    smooth<<<level.blocks(), dim3(32, 8), 0, stream>>>(level.x, level.b, level.n, half & 1);
}

// From fine to coarse and back.
void cycle(const std::vector<Level> &levels, cudaStream_t stream) {
  for (size_t i = 0; i + 1 < levels.size(); ++i) {
    const Level &fine = levels[i], &coarse = levels[i + 1];
    sweep(fine, stream);
    restrict_rest<<<coarse.blocks(), dim3(32, 8), 0, stream>>>(fine.x, fine.b, coarse.b, fine.n);
    CHECK(cudaMemsetAsync(coarse.x, 0, sizeof(float) * coarse.n * coarse.n, stream));
  }
  sweep(levels.back(), stream);
  for (size_t i = levels.size() - 1; i-- > 0;) {
    add_coarse<<<levels[i].blocks(), dim3(32, 8), 0, stream>>>(levels[i].x, levels[i + 1].x, levels[i].n);
    sweep(levels[i], stream);
  }
}

int main(int, char **argv) {
  Turns turns(argv[1]);
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  std::vector<Level> levels;
  for (int i = 0; i < LEVELS; ++i) {
    Level level{nullptr, nullptr, SIDE >> i};
    const size_t bytes = sizeof(float) * level.n * level.n;
    CHECK(cudaMalloc(&level.x, bytes));
    CHECK(cudaMalloc(&level.b, bytes));
    CHECK(cudaMemset(level.x, 0, bytes));
    levels.push_back(level);
  }
  std::vector<float> sources(SIDE * SIDE);
  for (int i = 0; i < SIDE * SIDE; ++i) sources[i] = float(i * 2654435761u >> 8) / (1 << 24) - 0.5f;
  CHECK(cudaMemcpy(levels[0].b, sources.data(), sizeof(float) * SIDE * SIDE, cudaMemcpyHostToDevice));
  cudaGraph_t graph;
  cudaGraphExec_t ready;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < CYCLES; ++i) cycle(levels, stream);
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&ready, graph, 0));
  while (turns.step()) {
    if (turns.planted)
      for (int i = 0; i < CYCLES; ++i) cycle(levels, stream);
    else
      CHECK(cudaGraphLaunch(ready, stream));
    CHECK(cudaStreamSynchronize(stream));
  }
  float middle;
  CHECK(cudaMemcpy(&middle, levels[0].x + SIDE * SIDE / 2 + SIDE / 2, sizeof(middle), cudaMemcpyDeviceToHost));
  fprintf(stderr, "%g\n", middle);
  turns.print();
}
