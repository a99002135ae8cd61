"""nccl-tests: run them, read their output, judge the bandwidth."""
