"""Communication kernels of a rank: what NCCL says of them, and their match over the ranks."""
