// Conjugate gradients for a Poisson equation; the cause reads both products of each iteration on the host.
// causes: synchronization
#include "turns.h"

struct Factor {
  double value;
  const double *top, *bottom;
  __device__ double get() const { return top ? value * *top / *bottom : value; }
};

__global__ void apply(const double *p, double *q, int n) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y, i = y * n + x;
  double sum = 4 * p[i];
  if (x > 0) sum -= p[i - 1];
  if (x < n - 1) sum -= p[i + 1];
  if (y > 0) sum -= p[i - n];
  if (y < n - 1) sum -= p[i + n];
  q[i] = sum;
}

__global__ void dot(const double *a, const double *b, double *total, int size) {
  __shared__ double parts[256];
  double mine = 0;
  for (int i = blockIdx.x * 256 + threadIdx.x; i < size; i += gridDim.x * 256) mine += a[i] * b[i];
  parts[threadIdx.x] = mine;
  for (int half = 128; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
  }
  if (threadIdx.x == 0) atomicAdd(total, parts[0]);
}

__global__ void add(double *y, const double *x, Factor factor, int size) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < size) y[i] += factor.get() * x[i];
}

__global__ void turn(double *p, const double *r, Factor factor, int size) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < size) p[i] = r[i] + factor.get() * p[i];
}

int main(int, char **argv) {
  Turns turns(argv[1]);
  const int n = 1024, size = n * n, rounds = 100, threads = 256, blocks = size / threads;
  const size_t bytes = size * sizeof(double), products = (2 * rounds + 1) * sizeof(double);
  std::vector<double> host(size);
  for (auto &value : host) value = rand() / double(RAND_MAX) - 0.5;
  double *b, *x, *r, *p, *q, *dots, last = 0;
  for (double **one : {&b, &x, &r, &p, &q}) CHECK(cudaMalloc(one, bytes));
  CHECK(cudaMalloc(&dots, products));
  CHECK(cudaMemcpy(b, host.data(), bytes, cudaMemcpyHostToDevice));
  const auto read = [](const double *place) {
    double value;
    CHECK(cudaMemcpy(&value, place, sizeof(double), cudaMemcpyDeviceToHost));
    return value;
  };
  while (turns.step()) {
    CHECK(cudaMemsetAsync(x, 0, bytes));
    CHECK(cudaMemsetAsync(dots, 0, products));
    CHECK(cudaMemcpyAsync(r, b, bytes, cudaMemcpyDeviceToDevice));
    CHECK(cudaMemcpyAsync(p, b, bytes, cudaMemcpyDeviceToDevice));
    dot<<<512, threads>>>(r, r, dots, size);
    double rest = turns.planted ? read(dots) : 0;
    for (int round = 0; round < rounds; ++round) {
      double *before = dots + 2 * round, *energy = before + 1, *after = before + 2;
      apply<<<dim3(n / 32, n / 8), dim3(32, 8)>>>(p, q, n);
      dot<<<512, threads>>>(p, q, energy, size);
      const double alpha = turns.planted ? rest / read(energy) : 0;
      add<<<blocks, threads>>>(x, p, turns.planted ? Factor{alpha} : Factor{1, before, energy}, size);
      add<<<blocks, threads>>>(r, q, turns.planted ? Factor{-alpha} : Factor{-1, before, energy}, size);
      dot<<<512, threads>>>(r, r, after, size);
      const double next = turns.planted ? read(after) : 0;
      turn<<<blocks, threads>>>(p, r, turns.planted ? Factor{next / rest} : Factor{1, after, before}, size);
      rest = next;
    }
    last = read(dots + 2 * rounds);
  }
  fprintf(stderr, "%g\n", last);
  turns.print();
}
