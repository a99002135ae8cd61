// American options by binomial trees; the cause launches a kernel for each level, the fix one for all.
// causes: tiny_kernels, host_bound
#include "turns.h"

constexpr int LEVELS = 512, THREADS = 512;
constexpr float START = 100, UP = 1.01f, CHANCE = 0.503f, DISCOUNT = 0.9999f;

__device__ float exercise(float strike, int level, int place) {
  return fmaxf(strike - START * powf(UP, 2 * place - level), 0);
}

__device__ float hold(float lower, float upper, float strike, int level, int place) {
  return fmaxf(DISCOUNT * (CHANCE * upper + (1 - CHANCE) * lower), exercise(strike, level, place));
}

__global__ void end(float *values, float strike) {
  const int place = blockIdx.x * blockDim.x + threadIdx.x;
  if (place <= LEVELS) values[place] = exercise(strike, LEVELS, place);
}

__global__ void go_back(const float *next, float *values, float strike, int level) {
  const int place = blockIdx.x * blockDim.x + threadIdx.x;
  if (place <= level) values[place] = hold(next[place], next[place + 1], strike, level, place);
}

__global__ void price(float *prices, const float *strikes) {
  __shared__ float values[LEVELS + 1];
  const float strike = strikes[blockIdx.x];
  const int place = threadIdx.x;
  values[place] = exercise(strike, LEVELS, place);
  if (place == 0) values[LEVELS] = exercise(strike, LEVELS, LEVELS);
  for (int level = LEVELS - 1; level >= 0; --level) {
    __syncthreads();
    const float value = hold(values[place], values[place + 1], strike, level, place);
    __syncthreads();
    if (place <= level) values[place] = value;
  }
  if (place == 0) prices[blockIdx.x] = values[0];
}

int main(int, char **argv) {
  Turns turns(argv[1]);
  const int options = 4, threads = 128;
  std::vector<float> host(options), strikes;
  for (int option = 0; option < options; ++option) strikes.push_back(95 + 3 * option);
  float *values, *next, *prices, *strikes_there;
  CHECK(cudaMalloc(&values, (LEVELS + 1) * sizeof(float)));
  CHECK(cudaMalloc(&next, (LEVELS + 1) * sizeof(float)));
  CHECK(cudaMalloc(&prices, options * sizeof(float)));
  CHECK(cudaMalloc(&strikes_there, options * sizeof(float)));
  CHECK(cudaMemcpy(strikes_there, strikes.data(), options * sizeof(float), cudaMemcpyHostToDevice));
  while (turns.step()) {
    if (turns.planted)
      for (int option = 0; option < options; ++option) {
        end<<<LEVELS / threads + 1, threads>>>(values, strikes[option]);
        for (int level = LEVELS - 1; level >= 0; --level) {
          std::swap(values, next);
          go_back<<<level / threads + 1, threads>>>(next, values, strikes[option], level);
        }
        CHECK(cudaMemcpyAsync(prices + option, values, sizeof(float), cudaMemcpyDeviceToDevice));
      }
    else
      price<<<options, THREADS>>>(prices, strikes_there);
    CHECK(cudaMemcpy(host.data(), prices, options * sizeof(float), cudaMemcpyDeviceToHost));
  }
  fprintf(stderr, "%g\n", host[0]);
  turns.print();
}
