// Particles of a plasma, sorted by cell; the cause adds up the counts of cells on the host.
// causes: idle, pageable_copy
#include "turns.h"

constexpr int SIDE = 128, CELLS = SIDE * SIDE * SIDE, ROW = 1024, ROWS = CELLS / ROW;
constexpr int PARTICLES = 1 << 24, KINDS = 3, THREADS = 256, BLOCKS = PARTICLES / THREADS;

__device__ int find_cell(float4 p) {
  const int x = min(int(p.x * SIDE), SIDE - 1), y = min(int(p.y * SIDE), SIDE - 1);
  return (min(int(p.z * SIDE), SIDE - 1) * SIDE + y) * SIDE + x;
}

__global__ void push(float4 *particles, unsigned seed) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  float4 p = particles[i];
  unsigned mixed = (i ^ seed) * 2654435761u;
  mixed ^= mixed >> 15, mixed *= 0x846ca68bu;
  p.w = 0.99f * p.w + 1e-5f * ((mixed >> 8) * 1.1920929e-7f - 1);
  p.x += p.w, p.y += 0.5f * p.w, p.z -= p.w;
  p.x -= floorf(p.x), p.y -= floorf(p.y), p.z -= floorf(p.z);
  particles[i] = p;
}

__global__ void fill(float4 *particles, unsigned seed) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  float place[3];
  for (unsigned axis = 0; axis < 3; ++axis) {
    unsigned mixed = (3 * i + axis + seed) * 2654435761u;
    mixed ^= mixed >> 16, mixed *= 0x7feb352du, mixed ^= mixed >> 15;
    place[axis] = (mixed >> 8) * 5.9604645e-8f;
  }
  particles[i] = {place[0], place[1], place[2], 0};
}

__global__ void count(const float4 *particles, int *counts) {
  atomicAdd(counts + find_cell(particles[blockIdx.x * blockDim.x + threadIdx.x]), 1);
}

__global__ void sort(const float4 *particles, int *starts, float4 *sorted) {
  const float4 p = particles[blockIdx.x * blockDim.x + threadIdx.x];
  sorted[atomicAdd(starts + find_cell(p), 1)] = p;
}

// The sum of the values of the threads before this one.
__device__ int add_before(int value) {
  __shared__ int sums[ROW];
  const int me = threadIdx.x;
  sums[me] = value;
  __syncthreads();
  for (int gap = 1; gap < ROW; gap *= 2) {
    const int more = me >= gap ? sums[me - gap] : 0;
    __syncthreads();
    sums[me] += more;
    __syncthreads();
  }
  return sums[me] - value;
}

__global__ void add_rows(const int *counts, int *starts, int *totals) {
  const int i = blockIdx.x * ROW + threadIdx.x, before = add_before(counts[i]);
  starts[i] = before;
  if (threadIdx.x == ROW - 1) totals[blockIdx.x] = before + counts[i];
}

__global__ void add_totals(int *totals) {
  const int first = totals[2 * threadIdx.x], second = totals[2 * threadIdx.x + 1];
  const int before = add_before(first + second);
  totals[2 * threadIdx.x] = before, totals[2 * threadIdx.x + 1] = before + first;
}

__global__ void shift(int *starts, const int *totals) { starts[blockIdx.x * ROW + threadIdx.x] += totals[blockIdx.x]; }

int main(int, char **argv) {
  static_assert(ROWS == 2 * ROW, "add_totals has two rows for each thread");
  Turns turns(argv[1]);
  std::vector<int> host(CELLS);
  float4 *particles[KINDS], *sorted;
  int *counts, *starts, *totals;
  CHECK(cudaMalloc(&sorted, sizeof(float4) * PARTICLES));
  CHECK(cudaMalloc(&counts, sizeof(int) * CELLS));
  CHECK(cudaMalloc(&starts, sizeof(int) * CELLS));
  CHECK(cudaMalloc(&totals, sizeof(int) * ROWS));
  for (int kind = 0; kind < KINDS; ++kind) {
    CHECK(cudaMalloc(&particles[kind], sizeof(float4) * PARTICLES));
    fill<<<BLOCKS, THREADS>>>(particles[kind], 77 * kind);
  }
  for (unsigned step = 0; turns.step(); ++step)
    for (float4 *&mine : particles) {
      push<<<BLOCKS, THREADS>>>(mine, step);
      CHECK(cudaMemsetAsync(counts, 0, sizeof(int) * CELLS));
      count<<<BLOCKS, THREADS>>>(mine, counts);
      if (turns.planted) {
        CHECK(cudaMemcpy(host.data(), counts, sizeof(int) * CELLS, cudaMemcpyDeviceToHost));
        int before = 0;
        for (int &one : host) {
          const int here = one;
          one = before, before += here;
        }
        CHECK(cudaMemcpy(starts, host.data(), sizeof(int) * CELLS, cudaMemcpyHostToDevice));
      } else {
        add_rows<<<ROWS, ROW>>>(counts, starts, totals);
        add_totals<<<1, ROW>>>(totals);
        shift<<<ROWS, ROW>>>(starts, totals);
      }
      sort<<<BLOCKS, THREADS>>>(mine, starts, sorted);
      std::swap(mine, sorted);
    }
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(host.data(), starts, sizeof(int) * CELLS, cudaMemcpyDeviceToHost));
  fprintf(stderr, "%d of %d\n", host[CELLS - 1], PARTICLES);
  turns.print();
}
