"""The second look: which kernels to measure with Nsight Compute, and what it said of them."""
