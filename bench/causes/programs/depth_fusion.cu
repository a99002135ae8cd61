// Depth images of a room fused into a grid of distances; the cause copies the pose of each to constant memory.
//
// The fix gives the pose to the kernel as an argument.
// causes: many_small_copies, synchronization, host_bound
#include "turns.h"

constexpr int SIDE = 128, ROWS = 480, COLUMNS = 640, IMAGES = 16, FUSED = 800, THREADS = 256;
constexpr float VOXEL = 4.0f / SIDE, NEAR = 4 * VOXEL;

// Where the camera is: rows of its rotation, and what is added behind it; and its focal length in pixels.
struct Pose {
  float4 row[3];
  float focal;
};

__constant__ Pose current;

__device__ void fuse(float2 *voxels, const float *depth, const Pose &pose) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float x = VOXEL * (i % SIDE) - 2, y = VOXEL * (i / SIDE % SIDE) - 2, z = VOXEL * (i / SIDE / SIDE) - 2;
  float seen[3];
  for (int k = 0; k < 3; ++k)
    seen[k] = pose.row[k].x * x + pose.row[k].y * y + pose.row[k].z * z + pose.row[k].w;
  if (seen[2] < 0.1f) return;
  const int column = int(pose.focal * seen[0] / seen[2] + COLUMNS / 2);
  const int row = int(pose.focal * seen[1] / seen[2] + ROWS / 2);
  if (column < 0 || row < 0 || column >= COLUMNS || row >= ROWS) return;
  const float distance = depth[row * COLUMNS + column] - seen[2];
  if (distance < -NEAR) return;
  float2 voxel = voxels[i];
  const float weight = fminf(voxel.y + 1, 64);
  voxel.x += (fminf(distance / NEAR, 1) - voxel.x) / weight;
  voxel.y = weight;
  voxels[i] = voxel;
}

__global__ void fuse_constant(float2 *voxels, const float *depth) { fuse(voxels, depth, current); }

__global__ void fuse_given(float2 *voxels, const float *depth, const Pose pose) { fuse(voxels, depth, pose); }

// A wall with waves, 2 to 3 m away.
__global__ void draw(float *depth, int image) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= ROWS * COLUMNS) return;
  depth[i] = 2.5f + 0.4f * sinf(0.02f * (i % COLUMNS) + image) * cosf(0.03f * (i / COLUMNS));
}

__global__ void count_inside(const float2 *voxels, int *inside) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (voxels[i].y > 0 && voxels[i].x < 0) atomicAdd(inside, 1);
}

// The pose of an image, on a circle around the room's middle.
static Pose find_pose(int image) {
  const float angle = 6.2831853f * image / FUSED, c = std::cos(angle), s = std::sin(angle);
  return {{make_float4(c, 0, s, 0), make_float4(0, 1, 0, 0.1f * s), make_float4(-s, 0, c, 2.5f)}, 525};
}

int main(int, char **argv) {
  Turns turns(argv[1]);
  const int voxel_count = SIDE * SIDE * SIDE, pixels = ROWS * COLUMNS;
  float2 *voxels;
  float *depth;
  int *inside, *seen;
  CHECK(cudaMalloc(&voxels, sizeof(float2) * voxel_count));
  CHECK(cudaMalloc(&depth, sizeof(float) * pixels * IMAGES));
  CHECK(cudaMalloc(&inside, sizeof(int)));
  CHECK(cudaMallocHost(&seen, sizeof(int)));
  CHECK(cudaMemset(voxels, 0, sizeof(float2) * voxel_count));
  for (int image = 0; image < IMAGES; ++image)
    draw<<<(pixels + THREADS - 1) / THREADS, THREADS>>>(depth + image * pixels, image);
  while (turns.step()) {
    for (int image = 0; image < FUSED; ++image) {
      const Pose pose = find_pose(image);
      const float *seen_depth = depth + image % IMAGES * pixels;
      if (turns.planted) {
        CHECK(cudaMemcpyToSymbol(current, &pose, sizeof(pose)));
        fuse_constant<<<voxel_count / THREADS, THREADS>>>(voxels, seen_depth);
      } else {
        fuse_given<<<voxel_count / THREADS, THREADS>>>(voxels, seen_depth, pose);
      }
    }
    CHECK(cudaMemsetAsync(inside, 0, sizeof(int)));
    count_inside<<<voxel_count / THREADS, THREADS>>>(voxels, inside);
    CHECK(cudaMemcpyAsync(seen, inside, sizeof(int), cudaMemcpyDeviceToHost));
    CHECK(cudaStreamSynchronize(0));
  }
  fprintf(stderr, "%d\n", *seen);
  turns.print();
}
