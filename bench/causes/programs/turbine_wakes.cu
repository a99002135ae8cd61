// Wakes of a wind farm; the cause writes constants as double literals, so float work runs in fp64.
// The fix writes them as floats.
// causes: none
#include "turns.h"

constexpr int SIDE = 1280, TURBINES = 512, DIRECTIONS = 12, THREADS = 256;
constexpr float SPACING = 8.0f;

// Real is the type of the literals: 0.035 or 0.035f.
template <typename Real>
__global__ void add_wakes(const float2 *turbines, float east, float north, float *losses) {
  const int cell = blockIdx.x * blockDim.x + threadIdx.x;
  if (cell >= SIDE * SIDE) return;
  const float x = SPACING * (cell % SIDE), y = SPACING * (cell / SIDE);
  float loss = 0;
  for (int t = 0; t < TURBINES; ++t) {
    const float dx = x - turbines[t].x, dy = y - turbines[t].y;
    const float along = dx * east + dy * north, across = dy * east - dx * north;
    if (along <= 0) continue;
    const float width = Real(0.035) * along + Real(28.3);
    const float ratio = across / width;
    const float core = Real(1.0) - Real(640.0) / (width * width);
    loss += (Real(1.0) - sqrt(Real(core))) * exp(Real(-0.5) * ratio * ratio);
  }
  losses[cell] = loss;
}

__global__ void add_power(const float *losses, float wind, float share, float *power) {
  const int cell = blockIdx.x * blockDim.x + threadIdx.x;
  if (cell >= SIDE * SIDE) return;
  const float speed = wind * fmaxf(0.0f, 1.0f - losses[cell]);
  power[cell] += share * 0.6f * speed * speed * speed;
}

int main(int, char **argv) {
  Turns turns(argv[1]);
  std::vector<float2> places(TURBINES);
  srand(1);
  for (auto &place : places) {
    place.x = SPACING * SIDE * (rand() / float(RAND_MAX));
    place.y = SPACING * SIDE * (rand() / float(RAND_MAX));
  }
  float2 *turbines;
  float *losses, *power;
  CHECK(cudaMalloc(&turbines, TURBINES * sizeof(float2)));
  CHECK(cudaMalloc(&losses, SIDE * SIDE * sizeof(float)));
  CHECK(cudaMalloc(&power, SIDE * SIDE * sizeof(float)));
  CHECK(cudaMemcpy(turbines, places.data(), TURBINES * sizeof(float2), cudaMemcpyHostToDevice));
  const int blocks = (SIDE * SIDE + THREADS - 1) / THREADS;
  while (turns.step()) {
    CHECK(cudaMemsetAsync(power, 0, SIDE * SIDE * sizeof(float)));
    for (int d = 0; d < DIRECTIONS; ++d) {
      const float angle = 6.2831853f * d / DIRECTIONS;
      const float east = cosf(angle), north = sinf(angle);
      if (turns.planted)
        add_wakes<double><<<blocks, THREADS>>>(turbines, east, north, losses);
      else
        add_wakes<float><<<blocks, THREADS>>>(turbines, east, north, losses);
      add_power<<<blocks, THREADS>>>(losses, 7.0f + 0.3f * d, 1.0f / DIRECTIONS, power);
    }
    CHECK(cudaGetLastError());
  }
  CHECK(cudaDeviceSynchronize());
  turns.print();
}
