// Neutrons of a reactor's core (Monte Carlo); the cause judges each generation's sources before the next begins.
//
// It finds on the host how evenly the sources of neutrons lie (their entropy). The fix launches the next
// generation first, and judges the one before meanwhile.
// causes: idle
#include "turns.h"

constexpr int SOURCES = 1 << 21, NEUTRONS = 64, SIDE = 32, CELLS = SIDE * SIDE * SIDE, THREADS = 256;
constexpr float ABSORBED = 0.05f, FREE_PATH = 0.04f;

__device__ unsigned mix(unsigned x) {
  x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu;
  return x ^ (x >> 16);
}

// A number between 0 and 1, without both; `state` goes on.
__device__ float draw(unsigned &state) {
  state = state * 747796405u + 2891336453u;
  return ((mix(state) >> 8) + 0.5f) * 5.9604645e-8f;
}

__global__ void fill(float4 *sources) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned state = mix(i);
  sources[i] = make_float4(draw(state), draw(state), draw(state), 1);
}

// Follows some neutrons of each source; where the last one was absorbed is a source of the next generation.
__global__ void follow(const float4 *sources, float4 *found, unsigned generation) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned state = mix(i ^ mix(generation + 1));
  const float4 source = sources[i];
  float4 last = source;
  for (int neutron = 0; neutron < NEUTRONS; ++neutron) {
    float x = source.x, y = source.y, z = source.z;
    while (true) {
      const float way = -FREE_PATH * __logf(draw(state)), up = 2 * draw(state) - 1, side = sqrtf(1 - up * up);
      float sine, cosine;
      __sincosf(6.2831853f * draw(state), &sine, &cosine);
      x += way * side * cosine, y += way * side * sine, z += way * up;
      if (x < 0 || y < 0 || z < 0 || x >= 1 || y >= 1 || z >= 1) break;
      if (draw(state) >= ABSORBED) continue;
      last = make_float4(x, y, z, last.w + 1);
      break;
    }
  }
  found[i] = last;
}

// The entropy of the sources' places on a mesh, in bits.
double find_entropy(const float4 *sources) {
  std::vector<int> counts(CELLS, 0);
  for (int i = 0; i < SOURCES; ++i) {
    const int x = std::min(int(sources[i].x * SIDE), SIDE - 1), y = std::min(int(sources[i].y * SIDE), SIDE - 1);
    ++counts[(std::min(int(sources[i].z * SIDE), SIDE - 1) * SIDE + y) * SIDE + x];
  }
  double entropy = 0;
  for (const int count : counts)
    if (count) entropy -= double(count) / SOURCES * std::log2(double(count) / SOURCES);
  return entropy;
}

int main(int, char **argv) {
  Turns turns(argv[1]);
  const size_t bytes = sizeof(float4) * SOURCES;
  float4 *sources[2], *host[2];
  cudaEvent_t done[2], copied[2];
  cudaStream_t compute, copies;
  CHECK(cudaStreamCreate(&compute));
  CHECK(cudaStreamCreate(&copies));
  for (int side = 0; side < 2; ++side) {
    CHECK(cudaMalloc(&sources[side], bytes));
    CHECK(cudaMallocHost(&host[side], bytes));
    CHECK(cudaEventCreateWithFlags(&done[side], cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&copied[side], cudaEventDisableTiming));
  }
  fill<<<SOURCES / THREADS, THREADS, 0, compute>>>(sources[1]);
  double total = 0;
  const auto judge = [&](int side) {
    CHECK(cudaEventSynchronize(copied[side]));
    total += find_entropy(host[side]);
  };
  bool waiting = false;
  for (unsigned generation = 0; turns.step(); ++generation) {
    const int now = int(generation % 2), before = 1 - now;
    follow<<<SOURCES / THREADS, THREADS, 0, compute>>>(sources[before], sources[now], generation);
    CHECK(cudaEventRecord(done[now], compute));
    CHECK(cudaStreamWaitEvent(copies, done[now]));
    CHECK(cudaMemcpyAsync(host[now], sources[now], bytes, cudaMemcpyDeviceToHost, copies));
    CHECK(cudaEventRecord(copied[now], copies));
    if (waiting) judge(before);
    if (turns.planted) judge(now);
    waiting = !turns.planted;
  }
  CHECK(cudaDeviceSynchronize());
  fprintf(stderr, "%g\n", total);
  turns.print();
}
