#!/usr/bin/env bash
# Install NCCL and the CUDA runtime it goes with, where the base image's own is not wanted.
# shellcheck source=../lib/stage/common.sh
source /mnt/stage/common.sh
# shellcheck source=../lib/stage/cuda.sh
source /mnt/stage/cuda.sh

: "${NCCL_SOURCE:?}" "${NCCL_VERSION?}" # and for pypi and source NCCL_PACKAGES
readonly home=/opt/nccl cuda_lib=/usr/local/cuda/lib64

# On a base without CUDA: the runtime, with the plain name that plugins open it by.
add_cuda_runtime() {
    local libraries file
    libraries=$(ldconfig -p)
    [[ ${libraries} != *libcudart.so.* ]] || return 0
    file=$(echo "${BUILD_DIR}"/wheels/nvidia/cu*/lib/libcudart.so.*)
    install -D -m 644 -t "${cuda_lib}" "${file}"
    ln -sf "${file##*/}" "${cuda_lib}/libcudart.so"
}

install_tree() { # install_tree INCLUDE LIB
    mkdir -p "${home}/lib"
    cp -r "$1" "${home}/include"
    cp -P "$2"/libnccl.so* "${home}/lib"
    [[ -e ${home}/lib/libnccl.so ]] || ln -s libnccl.so.2 "${home}/lib/libnccl.so"
    printf '%s\n' "${home}/lib" "${cuda_lib}" >/etc/ld.so.conf.d/000-gpu-profile-nccl.conf
}

apt_update
case ${NCCL_SOURCE} in
    pypi)
        wheels "${NCCL_PACKAGES}" "nvidia-nccl-cu${CUDA_VERSION%%.*}${NCCL_VERSION:+==${NCCL_VERSION}}" nvidia-cuda-runtime
        install_tree "${BUILD_DIR}/wheels/nvidia/nccl/include" "${BUILD_DIR}/wheels/nvidia/nccl/lib"
        add_cuda_runtime
        ;;
    apt) apt_install "libnccl2${NCCL_VERSION:+=${NCCL_VERSION}-*}" "libnccl-dev${NCCL_VERSION:+=${NCCL_VERSION}-*}" ;;
    source)
        install_tools g++ make
        NCCL_VERSION=v${NCCL_VERSION#v}
        [[ ${NCCL_VERSION} == *-* ]] || NCCL_VERSION+=-1
        fetch_source NCCL "${BUILD_DIR}/nccl"
        find_nvcc "${NCCL_PACKAGES}"
        make -C "${BUILD_DIR}/nccl" -j "$(compile_jobs)" src.build NVCC_GENCODE="$(gencode)"
        install_tree "${BUILD_DIR}/nccl/build/include" "${BUILD_DIR}/nccl/build/lib"
        add_cuda_runtime
        ;;
    *) die "NCCL_SOURCE=${NCCL_SOURCE} is not decided yet: build with base, pypi, apt or source" ;;
esac
remove_tools
ldconfig
python3 -c 'import ctypes; n = ctypes.c_int(); \
ctypes.CDLL("libnccl.so.2").ncclGetVersion(ctypes.byref(n)); print("NCCL", n.value)'
