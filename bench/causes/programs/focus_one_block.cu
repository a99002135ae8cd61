// The sharpness of frames of a microscope; the cause adds it up in one block, the fix in a block for each row.
// causes: unused_gpu
#include "turns.h"

constexpr int WIDTH = 4096, HEIGHT = 3072, FRAMES = 6, RADIUS = 3, THREADS = 1024;

// The mean of the pixels around each one.
__global__ void smooth(const float *frame, float *out) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  float sum = 0;
  for (int dy = -RADIUS; dy <= RADIUS; ++dy)
    for (int dx = -RADIUS; dx <= RADIUS; ++dx) {
      const int row = min(max(y + dy, 0), HEIGHT - 1), column = min(max(x + dx, 0), WIDTH - 1);
      const float apart = frame[row * WIDTH + column] - frame[y * WIDTH + x];
      sum += frame[row * WIDTH + column] * expf(-apart * apart - 0.1f * (dx * dx + dy * dy));
    }
  out[y * WIDTH + x] = sum / ((2 * RADIUS + 1) * (2 * RADIUS + 1));
}

// Adds the squared differences of neighbours; each block takes each gridDim.x-th row.
__global__ void add_edges(const float *frame, float *sharpness) {
  __shared__ float sums[THREADS];
  float sum = 0;
  for (int y = blockIdx.x; y < HEIGHT - 1; y += gridDim.x)
    for (int x = threadIdx.x; x < WIDTH - 1; x += THREADS) {
      const float here = frame[y * WIDTH + x];
      const float right = frame[y * WIDTH + x + 1] - here, down = frame[(y + 1) * WIDTH + x] - here;
      sum += right * right + down * down;
    }
  sums[threadIdx.x] = sum;
  for (int half = THREADS / 2; half; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) sums[threadIdx.x] += sums[threadIdx.x + half];
  }
  if (threadIdx.x == 0) atomicAdd(sharpness, sums[0]);
}

__global__ void fill(float *frame, int seed) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  frame[y * WIDTH + x] = sinf(0.01f * (x + seed) * (y % 13));
}

int main(int, char **argv) {
  Turns turns(argv[1]);
  const size_t bytes = sizeof(float) * WIDTH * HEIGHT;
  const dim3 threads(32, 8), blocks(WIDTH / 32, HEIGHT / 8);
  float *frames[FRAMES], *smoothed, *sharpness;
  for (int i = 0; i < FRAMES; ++i) {
    CHECK(cudaMalloc(&frames[i], bytes));
    fill<<<blocks, threads>>>(frames[i], i);
  }
  CHECK(cudaMalloc(&smoothed, bytes));
  CHECK(cudaMalloc(&sharpness, FRAMES * sizeof(float)));
  float found[FRAMES];
  while (turns.step()) {
    CHECK(cudaMemsetAsync(sharpness, 0, FRAMES * sizeof(float)));
    for (int i = 0; i < FRAMES; ++i) {
      for (int pass = 0; pass < 12; ++pass) smooth<<<blocks, threads>>>(frames[i], smoothed);
      add_edges<<<turns.planted ? 1 : HEIGHT, THREADS>>>(smoothed, sharpness + i);
    }
    CHECK(cudaMemcpy(found, sharpness, sizeof(found), cudaMemcpyDeviceToHost));
  }
  fprintf(stderr, "%g\n", found[0]);
  turns.print();
}
