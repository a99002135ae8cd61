"""Settings for tests: every `auto` decided, the rest as shipped."""

from pathlib import Path

from gpu_profile.settings.settings import Settings, load_settings

DECIDED = (
    "BASE_IMAGE=nvcr.io/nvidia/cuda:13.0.2-devel-ubuntu22.04",
    "NSYS_SOURCE=nvidia",
    "INSTALL_TORCH=cuda",
    "TORCH_URL=",
    "NCCL_SOURCE=source",
)


def settings_for(*overrides: str) -> Settings:
    return load_settings(Path("no/.env"), {}, [*DECIDED, *overrides])
