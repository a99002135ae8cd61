// A solver of many short kernels; the cause waits for the device after each of them.
// causes: synchronization
#include "turns.h"

__global__ void relax(const float *old, float *next, int n) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < 1 || y < 1 || x >= n - 1 || y >= n - 1) return;
  next[y * n + x] = 0.25f * (old[y * n + x - 1] + old[y * n + x + 1] + old[(y - 1) * n + x] + old[(y + 1) * n + x]);
}

int main(int, char **argv) {
  Turns turns(argv[1]);
  const int n = 2048;
  const dim3 threads(32, 8), blocks(n / 32, n / 8);
  float *a, *b;
  CHECK(cudaMalloc(&a, n * n * sizeof(float)));
  CHECK(cudaMalloc(&b, n * n * sizeof(float)));
  CHECK(cudaMemset(a, 0, n * n * sizeof(float)));
  float last;
  while (turns.step()) {
    for (int sweep = 0; sweep < 100; ++sweep) {
      relax<<<blocks, threads>>>(a, b, n);
      if (turns.planted) CHECK(cudaDeviceSynchronize());
      std::swap(a, b);
    }
    CHECK(cudaMemcpy(&last, a + n + 1, sizeof(float), cudaMemcpyDeviceToHost));
  }
  turns.print();
}
