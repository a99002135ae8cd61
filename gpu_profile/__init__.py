"""gpu-profile: record a multi-GPU program with Nsight Systems and read the reports."""

__version__ = "0.1.0"
