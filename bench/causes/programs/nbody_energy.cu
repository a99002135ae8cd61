// Bodies under gravity; the cause copies them to the host in each step and sums their energy there.
// causes: idle, pageable_copy
#include "turns.h"

__global__ void attract(const float4 *x, float4 *v, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float4 me = x[i];
  float3 f = {0, 0, 0};
  for (int j = 0; j < n; ++j) {
    const float4 other = x[j];
    const float a = other.x - me.x, b = other.y - me.y, c = other.z - me.z;
    const float near = rsqrtf(a * a + b * b + c * c + 1e-3f), s = other.w * near * near * near;
    f.x += a * s, f.y += b * s, f.z += c * s;
  }
  v[i].x += 1e-4f * f.x, v[i].y += 1e-4f * f.y, v[i].z += 1e-4f * f.z;
}

__global__ void move(float4 *x, const float4 *v) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  x[i].x += 1e-4f * v[i].x, x[i].y += 1e-4f * v[i].y, x[i].z += 1e-4f * v[i].z;
}

__global__ void sum(const float4 *v, double *energy) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(energy, 0.5 * (v[i].x * v[i].x + v[i].y * v[i].y + v[i].z * v[i].z));
}

int main(int, char **argv) {
  Turns turns(argv[1]);
  const int n = 1 << 16, threads = 256, blocks = n / threads;
  std::vector<float4> host(n);
  for (auto &body : host) body = {rand() / 1e9f, rand() / 1e9f, rand() / 1e9f, 1};
  float4 *x, *v;
  double *energy, total = 0;
  CHECK(cudaMalloc(&x, n * sizeof(float4)));
  CHECK(cudaMalloc(&v, n * sizeof(float4)));
  CHECK(cudaMalloc(&energy, sizeof(double)));
  CHECK(cudaMemcpy(x, host.data(), n * sizeof(float4), cudaMemcpyHostToDevice));
  CHECK(cudaMemset(v, 0, n * sizeof(float4)));
  while (turns.step()) {
    for (int part = 0; part < 4; ++part) {
      attract<<<blocks, threads>>>(x, v, n);
      move<<<blocks, threads>>>(x, v);
    }
    if (turns.planted) {
      CHECK(cudaMemcpy(host.data(), v, n * sizeof(float4), cudaMemcpyDeviceToHost));
      for (int round = 0; round < 40; ++round)
        for (const auto &u : host)
          total += 0.5 * (double(u.x) * u.x + double(u.y) * u.y + double(u.z) * u.z) * std::exp(-1e-3 * round);
    } else {
      sum<<<blocks, threads>>>(v, energy);
    }
  }
  CHECK(cudaDeviceSynchronize());
  fprintf(stderr, "%g\n", total);
  turns.print();
}
