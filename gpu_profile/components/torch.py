"""PyTorch and nvtx: settings, script arguments, environment."""

from gpu_profile.components.component import Component, _select_source_keys
from gpu_profile.components.key import Values, make_choice_key, make_text_key


def _torch_env(values: Values) -> dict[str, str]:
    """Return USE_LIBUV=0 for Debian's PyTorch.

    Debian builds it without libuv, but PyTorch uses libuv for its rendezvous by default and then
    fails.
    """
    of_distribution = values["INSTALL_TORCH"] == "cpu" and not values["TORCH_URL"]
    return {"USE_LIBUV": "0"} if of_distribution else {}


TORCH = Component(
    number=20,
    name="torch",
    doc="PyTorch, and the nvtx package that names ranges in a profile",
    enabled=lambda values: values["INSTALL_TORCH"] != "none",
    toggle="INSTALL_TORCH",
    env=_torch_env,
    args=lambda values: _select_source_keys(
        values,
        *("INSTALL_TORCH", "NVTX_VERSION"),
        *(("TORCH_VERSION",) * (values["INSTALL_TORCH"] != "base")),
        *(("TORCH_URL",) * (values["INSTALL_TORCH"] == "cpu")),
    ),
    keys=(
        make_choice_key(
            "INSTALL_TORCH",
            ("auto", "cuda", "cpu", "base", "none"),
            "PyTorch's CUDA build, its CPU build, the base image's own, or none; auto is cuda "
            "where the engine has GPUs, otherwise cpu",
        ),
        make_text_key(
            "TORCH_VERSION", "", "torch version in the package index; empty is the newest"
        ),
        make_text_key(
            "TORCH_URL",
            "auto",
            "package index of CPU builds; auto is PyTorch's own where it answers, otherwise the "
            "distribution's python3-torch; empty is the latter",
        ),
        make_text_key(
            "NVTX_VERSION",
            "0.2.11",
            "nvtx package; from 0.2.12 on nsys 2023 records none of its ranges",
        ),
    ),
)
