# What compiling for CUDA takes. Sourced after common.sh.
# shellcheck shell=bash

# find_nvcc LOCKED: the base image's toolkit; else NVIDIA's wheels, in the build directory only.
find_nvcc() {
    if [[ -x /usr/local/cuda/bin/nvcc ]]; then
        CUDA_HOME=/usr/local/cuda
    elif type -p nvcc >/dev/null; then
        CUDA_HOME=$(dirname "$(dirname "$(realpath "$(type -p nvcc)")")")
    else
        wheels "$1" nvidia-cuda-nvcc nvidia-cuda-crt nvidia-nvvm nvidia-cuda-runtime nvidia-cuda-cccl
        CUDA_HOME=$(echo "${BUILD_DIR}"/wheels/nvidia/cu*)
        [[ -e ${CUDA_HOME}/lib64 ]] || ln -s lib "${CUDA_HOME}/lib64"
        ln -sf "$(basename "${CUDA_HOME}"/lib/libcudart.so.*)" "${CUDA_HOME}/lib/libcudart.so"
    fi
    export CUDA_HOME PATH="${CUDA_HOME}/bin:${PATH}"
    nvcc --version | tail -n 2
}

# wheels LOCKED PACKAGE…: NVIDIA's wheels of CUDA_VERSION, unpacked below the build directory.
wheels() {
    local major=${CUDA_VERSION%%.*} locked=$1 package names=()
    shift
    ((major >= 13)) || die "CUDA ${CUDA_VERSION} has no such wheels: take 13.0 or newer, or a CUDA base image"
    for package in "$@"; do
        case ${package} in
            *==*) names+=("${package}") ;;
            *) names+=("${package}==${CUDA_VERSION}.*") ;;
        esac
    done
    install_tools python3-pip
    pip_packages "${locked}" --quiet --no-deps --no-compile --target "${BUILD_DIR}/wheels" -- \
        "${names[@]}"
}

# 80,90,100 -> nvcc's options: code for each, and PTX of the newest for what comes after it.
gencode() {
    local arch newest=0 options=()
    for arch in ${CUDA_ARCHS//,/ }; do
        options+=("-gencode=arch=compute_${arch},code=sm_${arch}")
        ((arch <= newest)) || newest=${arch}
    done
    printf '%s ' "${options[@]}" "-gencode=arch=compute_${newest},code=compute_${newest}"
}
