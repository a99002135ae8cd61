#!/usr/bin/env bash
# Compile nccl-tests with MPI, for the GPU architectures of the settings. Compilers do not stay.
# shellcheck source=../lib/stage/common.sh
source /mnt/stage/common.sh
# shellcheck source=../lib/stage/cuda.sh
source /mnt/stage/cuda.sh

: "${MPI_SOURCE:?}" "${CUDA_ARCHS:?}" "${CUDA_VERSION:?}"
readonly home=/opt/nccl-tests source=${BUILD_DIR}/nccl-tests

find_mpi() {
    if [[ ${MPI_SOURCE} == efa-installer ]]; then
        echo /opt/amazon/openmpi
    else
        echo /usr/lib/*-linux-gnu/openmpi
    fi
}

find_nccl() {
    local directory
    for directory in /opt/nccl /usr /usr/local/cuda; do
        [[ -e ${directory}/include/nccl.h ]] && echo "${directory}" && return
    done
    die 'no nccl.h in the base image: set NCCL_SOURCE to pypi, apt or source'
}

apt_update
install_tools g++ make
[[ ${MPI_SOURCE} == efa-installer ]] || install_tools libopenmpi-dev
fetch_source NCCL_TESTS "${source}"
find_nvcc "${NCCL_TESTS_PACKAGES?}"
nccl=$(find_nccl)
mpi=$(find_mpi)
options=(MPI=1 DSO=1 "MPI_HOME=${mpi}" "NCCL_HOME=${nccl}" "NVCC_GENCODE=$(gencode)")
log "make -j $(compile_jobs) ${options[*]}"
make -C "${source}" -j "$(compile_jobs)" "${options[@]}"

install -d "${home}/build/verifiable"
install -s -t "${home}/build" "${source}"/build/*_perf
cp -P "${source}"/build/verifiable/libverifiable.so* "${home}/build/verifiable"
ln -s -t /usr/local/bin "${home}"/build/*_perf
cp "${source}"/LICENSE* "${home}"
printf '%s\n' "${NCCL_TESTS_VERSION}" >"${home}/version"
remove_tools
