"""From a laptop to a multi-GPU Nsight Systems profile that has been read."""

__version__ = "0.1.0"
