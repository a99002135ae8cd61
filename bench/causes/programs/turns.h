// The turns of turns.py for programs in CUDA C++: the same modes, schedule and output.
#pragma once
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda_runtime.h>
#include <fcntl.h>
#include <sys/file.h>
#include <vector>

class Turns {
public:
  bool planted = true;

  explicit Turns(const char *mode) : turns_(!strcmp(mode, "turns")), first_(strcmp(mode, "fixed") != 0) {
    if (const char *lock = getenv("TURNS_LOCK")) flock(open(lock, O_CREAT | O_RDWR, 0600), LOCK_EX);
    if (const char *seconds = getenv("TURNS_SECONDS")) block_ms_ = 1000 * atof(seconds);
  }

  bool step() {
    if (left_ == 0 && !next_part()) return false;
    --left_;
    return true;
  }

  void print() const {
    printf("{");
    for (int wanted = 1; wanted >= 0; --wanted) {
      printf("\"%s\": [", wanted ? "planted" : "fixed");
      const char *comma = "";
      for (size_t i = turns_ ? 2 : 0; i < blocks_.size(); ++i)
        if (blocks_[i].planted == (wanted == 1)) {
          printf("%s%.4f", comma, blocks_[i].ms);
          comma = ", ";
        }
      printf("]%s", wanted ? ", " : "}\n");
    }
  }

private:
  struct Part { bool planted; int steps; bool timed; };
  struct Block { bool planted; double ms; };
  using Clock = std::chrono::steady_clock;

  bool next_part() {
    cudaDeviceSynchronize();
    if (timed_) {
      std::chrono::duration<double, std::milli> elapsed = Clock::now() - start_;
      blocks_.push_back({planted, elapsed.count() / steps_});
    }
    if (next_ == parts_.size() && !plan()) return false;
    const Part part = parts_[next_++];
    planted = part.planted, left_ = steps_ = part.steps, timed_ = part.timed;
    start_ = Clock::now();
    return true;
  }

  bool plan() {
    if (!turns_) {
      if (!blocks_.empty()) return false;
      parts_ = {{first_, 8, false}, {first_, 40, true}};
      return true;
    }
    if (blocks_.empty()) {
      parts_ = {{true, 8, false}, {false, 8, false}, {true, 8, true}, {false, 8, true}};
      return true;
    }
    if (blocks_.size() > 2) return false;
    for (int round = 0; round < 2; ++round)
      for (bool planted : {true, false, false, true}) {
        const double ms = blocks_[planted ? 0 : 1].ms;
        parts_.push_back({planted, 6, false});
        parts_.push_back({planted, std::max(6, int(std::lround(block_ms_ / ms))), true});
      }
    return true;
  }

  bool turns_, first_, timed_ = false;
  double block_ms_ = 600;
  int left_ = 0, steps_ = 0;
  size_t next_ = 0;
  std::vector<Part> parts_;
  std::vector<Block> blocks_;
  Clock::time_point start_;
};

#define CHECK(call)                                                                     \
  do {                                                                                  \
    if ((call) != cudaSuccess) {                                                        \
      fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(cudaGetLastError()));       \
      exit(1);                                                                          \
    }                                                                                   \
  } while (0)
