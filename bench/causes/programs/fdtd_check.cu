// Maxwell's equations in a cavity (FDTD); the cause is a macro that waits for the GPU after each launch to look for errors.
//
// The fix asks cudaGetLastError alone and leaves the wait to the end.
// causes: synchronization
#include "turns.h"

namespace {

bool debug_launches = false;

// Errors of a launch come now, those of a kernel when it has ended.
void check_launch(const char *file, int line) {
  cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess && debug_launches) error = cudaDeviceSynchronize();
  if (error != cudaSuccess) {
    fprintf(stderr, "%s:%d: %s\n", file, line, cudaGetErrorString(error));
    exit(1);
  }
}
#define CHECK_LAUNCH() check_launch(__FILE__, __LINE__)

constexpr int NX = 160, NY = 128, NZ = 128;
constexpr int CELLS = NX * NY * NZ;
constexpr int TIME_STEPS = 80;

struct Field {
  float *x, *y, *z;
};

__device__ int at(int i, int j, int k) { return (k * NY + j) * NX + i; }

__global__ void update_h(Field h, const Field e, float c) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y, k = blockIdx.z;
  if (i >= NX - 1 || j >= NY - 1 || k >= NZ - 1) return;
  int n = at(i, j, k);
  h.x[n] -= c * (e.z[at(i, j + 1, k)] - e.z[n] - e.y[at(i, j, k + 1)] + e.y[n]);
  h.y[n] -= c * (e.x[at(i, j, k + 1)] - e.x[n] - e.z[at(i + 1, j, k)] + e.z[n]);
  h.z[n] -= c * (e.y[at(i + 1, j, k)] - e.y[n] - e.x[at(i, j + 1, k)] + e.x[n]);
}

__global__ void update_e(Field e, const Field h, const float *loss, float c) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y, k = blockIdx.z;
  if (i < 1 || j < 1 || k < 1 || i >= NX - 1 || j >= NY - 1 || k >= NZ - 1) return;
  int n = at(i, j, k);
  float a = loss[n];
  e.x[n] = a * e.x[n] + c * (h.z[n] - h.z[at(i, j - 1, k)] - h.y[n] + h.y[at(i, j, k - 1)]);
  e.y[n] = a * e.y[n] + c * (h.x[n] - h.x[at(i, j, k - 1)] - h.z[n] + h.z[at(i - 1, j, k)]);
  e.z[n] = a * e.z[n] + c * (h.y[n] - h.y[at(i - 1, j, k)] - h.x[n] + h.x[at(i, j - 1, k)]);
}

__global__ void add_source(Field e, float value) {
  int k = threadIdx.x + NZ / 4;
  e.z[at(NX / 2, NY / 2, k)] += value;
}

__global__ void record_probes(const Field e, float *trace, int step) {
  int p = threadIdx.x;
  trace[step * 32 + p] = e.z[at(NX / 4 + p, NY / 3, NZ / 2)];
}

__global__ void fill_loss(float *loss) {
  int n = blockIdx.x * blockDim.x + threadIdx.x;
  if (n < CELLS) loss[n] = n % NX > 3 * NX / 4 ? 0.98f : 1.0f;
}

Field make_field() {
  Field field;
  for (float **part : {&field.x, &field.y, &field.z}) {
    CHECK(cudaMalloc(part, CELLS * sizeof(float)));
    CHECK(cudaMemset(*part, 0, CELLS * sizeof(float)));
  }
  return field;
}

} // namespace

int main(int argc, char **argv) {
  Turns turns(argv[1]);
  Field e = make_field(), h = make_field();
  float *loss, *trace;
  CHECK(cudaMalloc(&loss, CELLS * sizeof(float)));
  CHECK(cudaMalloc(&trace, TIME_STEPS * 32 * sizeof(float)));
  fill_loss<<<(CELLS + 255) / 256, 256>>>(loss);
  std::vector<float> probes(TIME_STEPS * 32);

  const dim3 block(32, 8), grid((NX + 31) / 32, (NY + 7) / 8, NZ);
  int time = 0;
  while (turns.step()) {
    debug_launches = turns.planted;
    for (int step = 0; step < TIME_STEPS; ++step, ++time) {
      update_h<<<grid, block>>>(h, e, 0.5f);
      CHECK_LAUNCH();
      update_e<<<grid, block>>>(e, h, loss, 0.5f);
      CHECK_LAUNCH();
      add_source<<<1, NZ / 2>>>(e, sinf(0.05f * time));
      CHECK_LAUNCH();
      record_probes<<<1, 32>>>(e, trace, step);
      CHECK_LAUNCH();
    }
    CHECK(cudaMemcpy(probes.data(), trace, probes.size() * sizeof(float), cudaMemcpyDeviceToHost));
  }
  fprintf(stderr, "%g\n", probes.back());
  turns.print();
}
