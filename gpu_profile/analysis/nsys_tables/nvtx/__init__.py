"""nsys' tables of NVTX ranges, one file each."""
