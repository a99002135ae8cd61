// A renderer of moving balls; the cause copies the place of each ball to the GPU by a copy of its own.
// causes: many_small_copies, synchronization
#include "turns.h"

constexpr int BALLS = 400, WIDTH = 1920, HEIGHT = 1080, BOUNCES = 2;

struct Ball { float x, y, z, radius, red, green, blue, mirror; };

// The first ball that a ray meets, or -1; `distance` becomes the way to it.
__device__ int find_hit(const Ball *balls, float3 from, float3 along, float &distance) {
  int hit = -1;
  for (int i = 0; i < BALLS; ++i) {
    const float x = from.x - balls[i].x, y = from.y - balls[i].y, z = from.z - balls[i].z;
    const float b = x * along.x + y * along.y + z * along.z;
    const float d = b * b - (x * x + y * y + z * z - balls[i].radius * balls[i].radius);
    if (d <= 0) continue;
    const float way = -b - sqrtf(d);
    if (way > 1e-3f && way < distance) distance = way, hit = i;
  }
  return hit;
}

__global__ void render(const Ball *all, uchar4 *image) {
  __shared__ Ball balls[BALLS];
  for (int i = threadIdx.y * blockDim.x + threadIdx.x; i < BALLS; i += blockDim.x * blockDim.y) balls[i] = all[i];
  __syncthreads();
  const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  if (column >= WIDTH || row >= HEIGHT) return;
  float3 from = make_float3(0, 0, -3), along, color = make_float3(0, 0, 0);
  const float u = (column - WIDTH / 2) / float(HEIGHT), v = (row - HEIGHT / 2) / float(HEIGHT);
  const float scale = rsqrtf(u * u + v * v + 1);
  along = make_float3(u * scale, v * scale, scale);
  float weight = 1;
  for (int bounce = 0; bounce <= BOUNCES; ++bounce) {
    float way = 1e9f;
    const int hit = find_hit(balls, from, along, way);
    if (hit < 0) break;
    const Ball &ball = balls[hit];
    from = make_float3(from.x + way * along.x, from.y + way * along.y, from.z + way * along.z);
    const float3 n = make_float3((from.x - ball.x) / ball.radius, (from.y - ball.y) / ball.radius,
                                 (from.z - ball.z) / ball.radius);
    const float light = fmaxf(0.1f, 0.6f * n.x - 0.6f * n.y - 0.5f * n.z) * weight * (1 - ball.mirror);
    color.x += light * ball.red, color.y += light * ball.green, color.z += light * ball.blue;
    const float turn = 2 * (along.x * n.x + along.y * n.y + along.z * n.z);
    along = make_float3(along.x - turn * n.x, along.y - turn * n.y, along.z - turn * n.z);
    weight *= ball.mirror;
  }
  image[row * WIDTH + column] = make_uchar4(255 * fminf(color.x, 1), 255 * fminf(color.y, 1), 255 * fminf(color.z, 1), 255);
}

// The balls circle around the middle.
void move(std::vector<Ball> &balls, int frame) {
  for (int i = 0; i < BALLS; ++i) {
    const float angle = 0.01f * frame + 0.37f * i, wide = 0.3f + 0.004f * i;
    balls[i].x = wide * cosf(angle), balls[i].y = wide * sinf(1.3f * angle), balls[i].z = 1.5f + wide * sinf(angle);
  }
}

int main(int, char **argv) {
  Turns turns(argv[1]);
  std::vector<Ball> balls(BALLS);
  for (int i = 0; i < BALLS; ++i) {
    const float shade = i / float(BALLS);
    balls[i] = {0, 0, 0, 0.03f + 0.02f * (i % 3), shade, 1 - shade, 0.5f, 0.4f};
  }
  Ball *on_gpu;
  uchar4 *image;
  CHECK(cudaMalloc(&on_gpu, sizeof(Ball) * BALLS));
  CHECK(cudaMalloc(&image, sizeof(uchar4) * WIDTH * HEIGHT));
  const dim3 block(16, 16), grid((WIDTH + 15) / 16, (HEIGHT + 15) / 16);
  for (int frame = 0; turns.step(); ++frame) {
    move(balls, frame);
    if (turns.planted)
      for (int i = 0; i < BALLS; ++i)
        CHECK(cudaMemcpy(on_gpu + i, &balls[i], sizeof(Ball), cudaMemcpyHostToDevice));
    else
      CHECK(cudaMemcpy(on_gpu, balls.data(), sizeof(Ball) * BALLS, cudaMemcpyHostToDevice));
    render<<<grid, block>>>(on_gpu, image);
    CHECK(cudaGetLastError());
  }
  turns.print();
}
