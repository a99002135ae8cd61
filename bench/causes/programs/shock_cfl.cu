// Shock waves of a gas in two dimensions; the cause finds the length of each time step on the host.
//
// It copies the largest speed of each block. The fix keeps the length on the GPU.
// causes: synchronization
#include "turns.h"

constexpr int SIDE = 768, TIMES = 150, THREADS = 256, BLOCKS = 264;
constexpr float GAMMA = 1.4f, CFL = 0.4f;

__device__ float pressure(const float4 &u) {
  return fmaxf((GAMMA - 1) * (u.w - 0.5f * (u.y * u.y + u.z * u.z) / u.x), 1e-4f);
}

__device__ float speed(const float4 &u) {
  return sqrtf(GAMMA * pressure(u) / u.x) + fmaxf(fabsf(u.y), fabsf(u.z)) / u.x;
}

// The largest speed of the cells of a block.
__global__ void find_speeds(const float4 *cells, float *speeds) {
  __shared__ float shared[THREADS];
  float most = 0;
  for (int i = blockIdx.x * THREADS + threadIdx.x; i < SIDE * SIDE; i += BLOCKS * THREADS)
    most = fmaxf(most, speed(cells[i]));
  shared[threadIdx.x] = most;
  for (int half = THREADS / 2; half > 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) shared[threadIdx.x] = fmaxf(shared[threadIdx.x], shared[threadIdx.x + half]);
  }
  if (threadIdx.x == 0) speeds[blockIdx.x] = shared[0];
}

__global__ void choose_length(const float *speeds, float *length) {
  float most = 0;
  for (int i = threadIdx.x; i < BLOCKS; i += 32) most = fmaxf(most, speeds[i]);
  for (int lane = 16; lane > 0; lane /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, lane));
  if (threadIdx.x == 0) *length = CFL / most;
}

__device__ float4 flow(const float4 &u, bool across) {
  const float p = pressure(u), v = (across ? u.y : u.z) / u.x;
  return {u.x * v, u.y * v + (across ? p : 0), u.z * v + (across ? 0 : p), (u.w + p) * v};
}

// The flow through the side between two cells (Rusanov).
__device__ float4 pass(const float4 &a, const float4 &b, bool across) {
  const float4 f = flow(a, across), g = flow(b, across);
  const float s = fmaxf(speed(a), speed(b));
  return {0.5f * (f.x + g.x - s * (b.x - a.x)), 0.5f * (f.y + g.y - s * (b.y - a.y)),
          0.5f * (f.z + g.z - s * (b.z - a.z)), 0.5f * (f.w + g.w - s * (b.w - a.w))};
}

__device__ void advance(const float4 *cells, float4 *next, float dt) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < SIDE * SIDE; i += gridDim.x * blockDim.x) {
    const int y = i / SIDE, x = i % SIDE;
    const int left = y * SIDE + (x + SIDE - 1) % SIDE, right = y * SIDE + (x + 1) % SIDE;
    const int up = (y + SIDE - 1) % SIDE * SIDE + x, down = (y + 1) % SIDE * SIDE + x;
    const float4 u = cells[i], a = pass(cells[left], u, true), b = pass(u, cells[right], true);
    const float4 c = pass(cells[up], u, false), d = pass(u, cells[down], false);
    next[i] = {u.x - dt * (b.x - a.x + d.x - c.x), u.y - dt * (b.y - a.y + d.y - c.y),
               u.z - dt * (b.z - a.z + d.z - c.z), u.w - dt * (b.w - a.w + d.w - c.w)};
  }
}

__global__ void advance_by(const float4 *cells, float4 *next, float dt) { advance(cells, next, dt); }

__global__ void advance_from(const float4 *cells, float4 *next, const float *dt) {
  advance(cells, next, *dt);
}

__global__ void fill(float4 *cells) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < SIDE * SIDE; i += gridDim.x * blockDim.x) {
    const int y = i / SIDE - SIDE / 2, x = i % SIDE - SIDE / 2;
    cells[i] = {1, 0, 0, x * x + y * y < 2500 ? 25.0f : 2.5f};
  }
}

int main(int, char **argv) {
  Turns turns(argv[1]);
  float4 *cells, *next;
  float *speeds, *length;
  for (float4 **array : {&cells, &next}) CHECK(cudaMalloc(array, sizeof(float4) * SIDE * SIDE));
  CHECK(cudaMalloc(&speeds, sizeof(float) * BLOCKS));
  CHECK(cudaMalloc(&length, sizeof(float)));
  std::vector<float> found(BLOCKS);
  while (turns.step()) {
    fill<<<BLOCKS, THREADS>>>(cells);
    for (int time = 0; time < TIMES; ++time) {
      find_speeds<<<BLOCKS, THREADS>>>(cells, speeds);
      if (turns.planted) {
        CHECK(cudaMemcpy(found.data(), speeds, sizeof(float) * BLOCKS, cudaMemcpyDeviceToHost));
        float most = 0;
        for (float one : found) most = std::max(most, one);
        advance_by<<<BLOCKS * 8, THREADS>>>(cells, next, CFL / most);
      } else {
        choose_length<<<1, 32>>>(speeds, length);
        advance_from<<<BLOCKS * 8, THREADS>>>(cells, next, length);
      }
      std::swap(cells, next);
    }
  }
  CHECK(cudaDeviceSynchronize());
  turns.print();
}
