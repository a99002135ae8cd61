// Reactions on patches of a grid; the cause fills the rims of each patch by a copy for each side.
// The fix fills the rims of all patches by one kernel.
// causes: many_small_copies, host_bound
#include "turns.h"

constexpr int ACROSS = 12, DOWN = 8, PATCHES = ACROSS * DOWN, INNER = 256, RIM = 2;
constexpr int SIDE = INNER + 2 * RIM, AREA = SIDE * SIDE, SUBSTEPS = 8, ROUNDS = 200, THREADS = 256;

__host__ __device__ int find_neighbour(int patch, int right, int below) {
  const int column = (patch % ACROSS + right + ACROSS) % ACROSS;
  const int row = (patch / ACROSS + below + DOWN) % DOWN;
  return row * ACROSS + column;
}

void copy_part(float *to, const float *from, int columns, int rows) {
  const size_t pitch = SIDE * sizeof(float);
  CHECK(cudaMemcpy2DAsync(to, pitch, from, pitch, columns * sizeof(float), rows,
                          cudaMemcpyDeviceToDevice));
}

void copy_rims(float *cells) {
  const int end = RIM + INNER;
  for (int patch = 0; patch < PATCHES; ++patch) {
    float *own = cells + size_t(patch) * AREA;
    const float *left = cells + size_t(find_neighbour(patch, -1, 0)) * AREA;
    const float *right = cells + size_t(find_neighbour(patch, 1, 0)) * AREA;
    const float *above = cells + size_t(find_neighbour(patch, 0, -1)) * AREA;
    const float *below = cells + size_t(find_neighbour(patch, 0, 1)) * AREA;
    copy_part(own + RIM * SIDE, left + RIM * SIDE + INNER, RIM, INNER);
    copy_part(own + RIM * SIDE + end, right + RIM * SIDE + RIM, RIM, INNER);
    copy_part(own + RIM, above + INNER * SIDE + RIM, INNER, RIM);
    copy_part(own + end * SIDE + RIM, below + RIM * SIDE + RIM, INNER, RIM);
  }
}

// One block for each side of each patch.
__global__ void fill_rims(float *cells) {
  const int patch = blockIdx.x, side = blockIdx.y, end = RIM + INNER;
  const bool upright = side < 2, last = side % 2;
  const int step = last ? 1 : -1;
  const int other = upright ? find_neighbour(patch, step, 0) : find_neighbour(patch, 0, step);
  for (int i = threadIdx.x; i < RIM * INNER; i += blockDim.x) {
    const int deep = upright ? i % RIM : i / INNER, along = RIM + (upright ? i / RIM : i % INNER);
    const int to = last ? end + deep : deep, from = last ? RIM + deep : INNER + deep;
    cells[size_t(patch) * AREA + (upright ? along * SIDE + to : to * SIDE + along)] =
        cells[size_t(other) * AREA + (upright ? along * SIDE + from : from * SIDE + along)];
  }
}

__global__ void react(const float *cells, float *next) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= INNER * INNER) return;
  const size_t at = size_t(blockIdx.y) * AREA + (RIM + i / INNER) * SIDE + RIM + i % INNER;
  const float here = cells[at];
  const float near = cells[at - 1] + cells[at + 1] + cells[at - SIDE] + cells[at + SIDE];
  const float far = cells[at - 2] + cells[at + 2] + cells[at - 2 * SIDE] + cells[at + 2 * SIDE];
  float value = here + 0.05f * (16 * near - far - 60 * here) / 12;
  for (int round = 0; round < ROUNDS; ++round)
    value += 1e-4f * (value * (1 - value) - 0.1f * __expf(-value));
  next[at] = value;
}

int main(int, char **argv) {
  Turns turns(argv[1]);
  std::vector<float> start(size_t(PATCHES) * AREA);
  srand(1);
  for (auto &value : start) value = rand() / float(RAND_MAX);
  float *cells, *next;
  const size_t bytes = start.size() * sizeof(float);
  CHECK(cudaMalloc(&cells, bytes));
  CHECK(cudaMalloc(&next, bytes));
  CHECK(cudaMemcpy(cells, start.data(), bytes, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(next, start.data(), bytes, cudaMemcpyHostToDevice));
  const dim3 grid(INNER * INNER / THREADS, PATCHES);
  while (turns.step())
    for (int substep = 0; substep < SUBSTEPS; ++substep) {
      if (turns.planted)
        copy_rims(cells);
      else
        fill_rims<<<dim3(PATCHES, 4), THREADS>>>(cells);
      react<<<grid, THREADS>>>(cells, next);
      float *old = cells;
      cells = next, next = old;
    }
  CHECK(cudaDeviceSynchronize());
  turns.print();
}
