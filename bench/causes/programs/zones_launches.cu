// A flame in a burner; the cause launches its chemistry zone by zone, the fix for all zones at once.
// causes: tiny_kernels, host_bound
#include "turns.h"

const int columns = 768, rows = 512, cells = columns * rows, species = 8, zone_cells = 256, zones = cells / zone_cells;

// One sweep of transport: each species mixes with its neighbours and is carried along.
__global__ void carry(const float *before, float *after, float wind) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, x = i % columns, y = i / columns;
  const int left = y * columns + (x + columns - 1) % columns, right = y * columns + (x + 1) % columns;
  const int up = (y + rows - 1) % rows * columns + x, down = (y + 1) % rows * columns + x;
  for (int s = 0; s < species; ++s) {
    const float *field = before + s * cells;
    const float spread = field[left] + field[right] + field[up] + field[down] - 4 * field[i];
    after[s * cells + i] = field[i] + 0.1f * spread - wind * (field[i] - field[left]);
  }
}

// The light that reaches each cell along rays from all directions.
__global__ void light(const float *fields, float *heat, int rays, int reach) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, x = i % columns, y = i / columns;
  float sum = 0;
  for (int ray = 0; ray < rays; ++ray) {
    float dx, dy, left = 1;
    sincospif(2.0f * ray / rays, &dy, &dx);
    for (int step = 1; step <= reach; ++step) {
      const int column = (x + int(dx * step) + columns) % columns, row = (y + int(dy * step) + rows) % rows;
      const float soot = fields[row * columns + column];
      sum += left * soot;
      left *= 1 - 0.05f * soot;
    }
  }
  heat[i] = sum / rays;
}

// The species of the cells from `first` on react: a step that is solved by Newton's method.
__global__ void react(float *fields, const float *heat, int first) {
  const int i = first + blockIdx.x * blockDim.x + threadIdx.x;
  const float rate = 0.01f + 1e-4f * heat[i];
  float made = 0;
  for (int s = 0; s < species; ++s) {
    const float start = fields[s * cells + i] + made;
    float now = start;
    for (int round = 0; round < 3; ++round)
      now -= (now - start + rate * now * now) / (1 + 2 * rate * now);
    fields[s * cells + i] = now;
    made = start - now;
  }
}

__global__ void fill(float *fields) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  fields[i] = 0.5f + 0.5f * sinf(0.001f * i);
}

int main(int, char **argv) {
  Turns turns(argv[1]);
  const int sweeps = 200, rays = 128, reach = 100, threads = 256, blocks = cells / threads;
  float *fields, *next, *heat;
  CHECK(cudaMalloc(&fields, sizeof(float) * cells * species));
  CHECK(cudaMalloc(&next, sizeof(float) * cells * species));
  CHECK(cudaMalloc(&heat, sizeof(float) * cells));
  fill<<<blocks * species, threads>>>(fields);
  while (turns.step()) {
    for (int sweep = 0; sweep < sweeps; ++sweep) {
      carry<<<blocks, threads>>>(fields, next, 0.05f);
      std::swap(fields, next);
    }
    light<<<blocks, threads>>>(fields, heat, rays, reach);
    if (turns.planted)
      for (int zone = 0; zone < zones; ++zone) react<<<1, zone_cells>>>(fields, heat, zone * zone_cells);
    else
      react<<<zones, zone_cells>>>(fields, heat, 0);
    CHECK(cudaGetLastError());
  }
  turns.print();
}
