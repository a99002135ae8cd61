// Crystals that grow in a melt (phase field); the cause waits for each kernel to time it by events.
//
// The fix records events for all kernels of a step, and reads the times at its end.
// causes: synchronization
#include "turns.h"

constexpr int SIDE = 1536, CELLS = SIDE * SIDE, SWEEPS = 1000, KERNELS = 2 * SWEEPS;
constexpr float TIME = 1e-4f, LENGTH = 0.03f, TAU = 3e-4f, WIDTH = 0.01f;

__device__ float bend(const float *field, int x, int y) {
  const int left = x ? x - 1 : SIDE - 1, right = x < SIDE - 1 ? x + 1 : 0;
  const int up = y ? y - 1 : SIDE - 1, down = y < SIDE - 1 ? y + 1 : 0;
  const float around = field[y * SIDE + left] + field[y * SIDE + right] + field[up * SIDE + x] + field[down * SIDE + x];
  return (around - 4 * field[y * SIDE + x]) / (LENGTH * LENGTH);
}

// How solid each cell is, some time later.
__global__ void freeze(const float *solid, const float *heat, float *later) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, i = y * SIDE + x;
  const float now = solid[i], drive = 0.9f / 3.14159265f * atanf(10 * (1 - heat[i]));
  const float reaction = now * (1 - now) * (now - 0.5f + drive);
  later[i] = now + TIME / TAU * (WIDTH * WIDTH * bend(solid, x, y) + reaction);
}

// The heat, which spreads, and is set free where the melt freezes.
__global__ void warm(const float *heat, const float *solid, const float *later, float *warmer) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, i = y * SIDE + x;
  warmer[i] = heat[i] + TIME * bend(heat, x, y) + 1.6f * (later[i] - solid[i]);
}

struct Span { cudaEvent_t begin, end; };

int main(int, char **argv) {
  Turns turns(argv[1]);
  const size_t bytes = sizeof(float) * CELLS;
  std::vector<float> seeds(CELLS, 0.0f);
  for (int seed = 0; seed < 400; ++seed) {
    const int place = int((seed * 2654435761u) % unsigned(CELLS - 4 * SIDE));
    for (int y = 0; y < 4; ++y)
      for (int x = 0; x < 4; ++x) seeds[place + y * SIDE + x] = 1;
  }
  float *solid, *later, *heat, *warmer;
  for (float **field : {&solid, &later, &heat, &warmer}) CHECK(cudaMalloc(field, bytes));
  CHECK(cudaMemcpy(solid, seeds.data(), bytes, cudaMemcpyHostToDevice));
  CHECK(cudaMemset(heat, 0, bytes));
  std::vector<Span> spans(KERNELS);
  for (Span &span : spans) {
    CHECK(cudaEventCreate(&span.begin));
    CHECK(cudaEventCreate(&span.end));
  }
  double total[2] = {0, 0};
  const auto add = [&](int number, const Span &span) {
    float milliseconds = 0;
    CHECK(cudaEventElapsedTime(&milliseconds, span.begin, span.end));
    total[number % 2] += milliseconds;
  };
  const auto time_kernel = [&](int number, const auto &launch) {
    const Span &span = spans[turns.planted ? 0 : number];
    CHECK(cudaEventRecord(span.begin));
    launch();
    CHECK(cudaEventRecord(span.end));
    if (!turns.planted) return;
    CHECK(cudaEventSynchronize(span.end));
    add(number, span);
  };
  const dim3 threads(32, 8), blocks(SIDE / 32, SIDE / 8);
  while (turns.step()) {
    for (int sweep = 0; sweep < SWEEPS; ++sweep) {
      time_kernel(2 * sweep, [&] { freeze<<<blocks, threads>>>(solid, heat, later); });
      time_kernel(2 * sweep + 1, [&] { warm<<<blocks, threads>>>(heat, solid, later, warmer); });
      std::swap(solid, later);
      std::swap(heat, warmer);
    }
    if (turns.planted) continue;
    CHECK(cudaEventSynchronize(spans.back().end));
    for (int number = 0; number < KERNELS; ++number) add(number, spans[number]);
  }
  CHECK(cudaDeviceSynchronize());
  fprintf(stderr, "%g ms, %g ms\n", total[0], total[1]);
  turns.print();
}
