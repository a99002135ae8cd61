"""Changes of what kernels compute with: tensor cores, 16 bits, more multiprocessors."""
