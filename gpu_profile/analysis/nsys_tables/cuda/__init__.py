"""nsys' tables of CUDA calls and GPU operations, one file each."""
