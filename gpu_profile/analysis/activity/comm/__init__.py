"""Communication kernels of a rank: NCCL's NVTX payloads, and the match over the ranks."""
