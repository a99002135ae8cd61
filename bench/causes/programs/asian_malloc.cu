// Asian options by Monte Carlo; the cause allocates the paths of each option and frees them.
// causes: allocation
#include "turns.h"

__device__ unsigned mix(unsigned x) {
  x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu;
  return x ^ (x >> 16);
}

__global__ void draw(float2 *normals, int pairs, unsigned seed) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= pairs) return;
  const float u = (mix(2 * i + seed) + 1.0f) * 2.3283e-10f, v = mix(2 * i + 1 + seed) * 2.3283e-10f;
  const float radius = sqrtf(-2 * logf(fminf(u, 0.9999999f)));
  float sine, cosine;
  sincospif(2 * v, &sine, &cosine);
  normals[i] = {radius * cosine, radius * sine};
}

__global__ void walk(const float *normals, float *payoffs, int paths, int times, float strike) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= paths) return;
  float price = 100, sum = 0;
  for (int time = 0; time < times; ++time) {
    price *= expf(-0.0002f + 0.02f * normals[time * paths + i]);
    sum += price;
  }
  payoffs[i] = fmaxf(sum / times - strike, 0);
}

__global__ void average(const float *payoffs, double *price, int paths) {
  double mine = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < paths; i += gridDim.x * blockDim.x) mine += payoffs[i];
  atomicAdd(price, mine / paths);
}

int main(int, char **argv) {
  Turns turns(argv[1]);
  const int paths = 1 << 20, times = 64, options = 16, threads = 256, blocks = paths / threads;
  const size_t normal_bytes = sizeof(float) * paths * times, payoff_bytes = sizeof(float) * paths;
  float *kept_normals, *kept_payoffs;
  double *prices;
  std::vector<double> host(options);
  CHECK(cudaMalloc(&kept_normals, normal_bytes));
  CHECK(cudaMalloc(&kept_payoffs, payoff_bytes));
  CHECK(cudaMalloc(&prices, options * sizeof(double)));
  while (turns.step()) {
    CHECK(cudaMemsetAsync(prices, 0, options * sizeof(double)));
    for (int option = 0; option < options; ++option) {
      float *normals = kept_normals, *payoffs = kept_payoffs;
      if (turns.planted) {
        CHECK(cudaMalloc(&normals, normal_bytes));
        CHECK(cudaMalloc(&payoffs, payoff_bytes));
      }
      draw<<<blocks * times / 2, threads>>>((float2 *)normals, paths * times / 2, 77 * option);
      walk<<<blocks, threads>>>(normals, payoffs, paths, times, 90 + option);
      average<<<256, threads>>>(payoffs, prices + option, paths);
      if (turns.planted) {
        CHECK(cudaFree(normals));
        CHECK(cudaFree(payoffs));
      }
    }
    CHECK(cudaMemcpy(host.data(), prices, options * sizeof(double), cudaMemcpyDeviceToHost));
  }
  fprintf(stderr, "%g\n", host[0]);
  turns.print();
}
