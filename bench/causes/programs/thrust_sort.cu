// Particles that Thrust sorts by cell; the cause lets it allocate its temporary memory in each call.
// causes: allocation
#include "turns.h"
#include <map>
#include <thrust/device_ptr.h>
#include <thrust/execution_policy.h>
#include <thrust/reduce.h>
#include <thrust/sort.h>
#include <thrust/system/cuda/execution_policy.h>

const int SIDE = 256, CELLS = SIDE * SIDE, COUNT = 1 << 20, ROUNDS = 4, THREADS = 256;

// Keeps memory for the next call that asks for as much, like Thrust's example of an allocator.
class Cache {
public:
  using value_type = char;

  char *allocate(std::ptrdiff_t bytes) {
    auto found = free_.find(bytes);
    char *memory = nullptr;
    if (found == free_.end()) {
      CHECK(cudaMalloc(&memory, bytes));
    } else {
      memory = found->second;
      free_.erase(found);
    }
    sizes_[memory] = bytes;
    return memory;
  }

  void deallocate(char *memory, size_t) { free_.emplace(sizes_[memory], memory); }

private:
  std::multimap<std::ptrdiff_t, char *> free_;
  std::map<char *, std::ptrdiff_t> sizes_;
};

__device__ int cell_of(float2 x) { return int(x.y) % SIDE * SIDE + int(x.x) % SIDE; }

__global__ void number(const float2 *x, int *cells, int *order) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  cells[i] = cell_of(x[i]), order[i] = i;
}

__global__ void start(const int *cells, int *first) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i == 0 || cells[i - 1] != cells[i]) first[cells[i]] = i;
}

__global__ void push(const float2 *x, float2 *v, float *energy, const int *cells, const int *order,
                     const int *first) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, mine = order[i];
  const float2 me = x[mine];
  float2 force = {0, 0};
  for (int j = first[cells[i]]; j < COUNT && cells[j] == cells[i]; ++j) {
    const float2 other = x[order[j]];
    const float a = me.x - other.x, b = me.y - other.y, near = __expf(-20 * (a * a + b * b));
    force.x += a * near, force.y += b * near;
  }
  const float2 speed = {v[mine].x + 0.01f * force.x, v[mine].y + 0.01f * force.y};
  v[mine] = speed, energy[mine] = speed.x * speed.x + speed.y * speed.y;
}

__global__ void move(float2 *x, const float2 *v) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  x[i].x = fmodf(x[i].x + 0.01f * v[i].x + SIDE, SIDE);
  x[i].y = fmodf(x[i].y + 0.01f * v[i].y + SIDE, SIDE);
}

template <class Policy> float advance(Policy policy, float2 *x, float2 *v, float *energy, int *cells,
                                      int *order, int *first) {
  const int blocks = COUNT / THREADS;
  number<<<blocks, THREADS>>>(x, cells, order);
  thrust::sort_by_key(policy, thrust::device_pointer_cast(cells),
                      thrust::device_pointer_cast(cells) + COUNT, thrust::device_pointer_cast(order));
  start<<<blocks, THREADS>>>(cells, first);
  push<<<blocks, THREADS>>>(x, v, energy, cells, order, first);
  move<<<blocks, THREADS>>>(x, v);
  return thrust::reduce(policy, thrust::device_pointer_cast(energy),
                        thrust::device_pointer_cast(energy) + COUNT);
}

int main(int, char **argv) {
  Turns turns(argv[1]);
  std::vector<float2> places(COUNT);
  for (auto &place : places) place = {rand() % (SIDE * 1000) / 1000.0f, rand() % (SIDE * 1000) / 1000.0f};
  float2 *x, *v;
  float *energy, total = 0;
  int *cells, *order, *first;
  CHECK(cudaMalloc(&x, COUNT * sizeof(float2)));
  CHECK(cudaMalloc(&v, COUNT * sizeof(float2)));
  CHECK(cudaMalloc(&energy, COUNT * sizeof(float)));
  CHECK(cudaMalloc(&cells, COUNT * sizeof(int)));
  CHECK(cudaMalloc(&order, COUNT * sizeof(int)));
  CHECK(cudaMalloc(&first, CELLS * sizeof(int)));
  CHECK(cudaMemcpy(x, places.data(), COUNT * sizeof(float2), cudaMemcpyHostToDevice));
  CHECK(cudaMemset(v, 0, COUNT * sizeof(float2)));
  Cache cache;
  while (turns.step()) {
    for (int round = 0; round < ROUNDS; ++round)
      total = turns.planted ? advance(thrust::cuda::par, x, v, energy, cells, order, first)
                            : advance(thrust::cuda::par(cache), x, v, energy, cells, order, first);
  }
  CHECK(cudaDeviceSynchronize());
  fprintf(stderr, "%g\n", total);
  turns.print();
}
