// Particles in a field; the cause allocates and frees the force buffers in each step.
// causes: allocation
#include "turns.h"

__global__ void forces(const float *x, float *f, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0;
  for (int k = 0; k < 400; ++k) sum += __sinf(x[i] * k) * __cosf(x[(i + k) % n]);
  f[i] = sum;
}

__global__ void move(float *x, const float *f, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] += 1e-6f * f[i];
}

int main(int, char **argv) {
  Turns turns(argv[1]);
  const int n = 1 << 22, threads = 256, blocks = (n + threads - 1) / threads;
  float *x, *kept[4];
  CHECK(cudaMalloc(&x, n * sizeof(float)));
  CHECK(cudaMemset(x, 0, n * sizeof(float)));
  for (auto &buffer : kept) CHECK(cudaMalloc(&buffer, 64 * n * sizeof(float)));
  while (turns.step())
    for (int part = 0; part < 4; ++part) {
      float *f = kept[part];
      if (turns.planted) CHECK(cudaMalloc(&f, 64 * n * sizeof(float)));
      forces<<<blocks, threads>>>(x, f, n);
      move<<<blocks, threads>>>(x, f, n);
      if (turns.planted) CHECK(cudaFree(f));
    }
  CHECK(cudaDeviceSynchronize());
  turns.print();
}
