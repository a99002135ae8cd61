#!/usr/bin/env bash
# Install PyTorch and the nvtx package, for the system's python3.
# shellcheck source=../lib/stage/common.sh
source /mnt/stage/common.sh

: "${INSTALL_TORCH:?}" "${NVTX_VERSION:?}" "${NVTX_PACKAGES?}"
# and TORCH_VERSION and TORCH_PACKAGES but for base, TORCH_URL for cpu

readonly torch="torch${TORCH_VERSION:+==${TORCH_VERSION}}"

apt_update
case ${INSTALL_TORCH} in
    cuda)
        install_tools python3-pip
        pip_packages "${TORCH_PACKAGES}" -- "${torch}" numpy
        ;;
    cpu)
        if [[ -n ${TORCH_URL} ]]; then
            install_tools python3-pip
            pip_packages "${TORCH_PACKAGES}" --index-url "${TORCH_URL}" -- "${torch}" numpy
        else
            apt-cache show python3-torch >/dev/null 2>&1 ||
                die 'this distribution has no PyTorch: set TORCH_URL to an index of CPU builds'
            # Without OpenBLAS, Debian's torch falls back on the reference BLAS: tens of times slower.
            apt_install python3-numpy python3-torch libopenblas0-pthread
            install_tools python3-pip
        fi
        ;;
    base) python3 -m pip --version >/dev/null || install_tools python3-pip ;;
    *) die "INSTALL_TORCH=${INSTALL_TORCH} is not decided yet: build with cuda, cpu or base" ;;
esac
pip_packages "${NVTX_PACKAGES}" --no-deps -- "nvtx==${NVTX_VERSION}"
remove_tools
python3 -c 'import numpy, nvtx, torch; print("torch", torch.__version__)'
