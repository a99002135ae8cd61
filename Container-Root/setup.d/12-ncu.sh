#!/usr/bin/env bash
# Install Nsight Compute's command line, without its window.
# shellcheck source=../lib/stage/common.sh
source /mnt/stage/common.sh

: "${NCU_SOURCE:?}" # and for nvidia NCU_VERSION, NCU_URL and NCU_SHA256

# NVIDIA's repositories of CUDA have the same packages of ncu; Debian takes the nearest Ubuntu's.
nvidia_repository() {
    local architecture
    case $(dpkg --print-architecture) in
        amd64) architecture=x86_64 ;;
        arm64) architecture=sbsa ;;
        *) die 'NVIDIA has no Nsight Compute for this architecture: set INSTALL_NCU=false' ;;
    esac
    # shellcheck source=/dev/null
    case $(. /etc/os-release && printf '%s%s' "${ID}" "${VERSION_ID//./}") in
        debian11) printf 'ubuntu2004/%s' "${architecture}" ;;
        debian12) printf 'ubuntu2204/%s' "${architecture}" ;;
        debian13) printf 'ubuntu2404/%s' "${architecture}" ;;
        ubuntu*) (. /etc/os-release && printf '%s/%s' "${ID}${VERSION_ID//./}" "${architecture}") ;;
        *) die 'INSTALL_NCU needs Debian or Ubuntu, or a base image with ncu and NSYS_SOURCE=base' ;;
    esac
}

# The window (host) is 600 MB that no pod opens.
install_nvidia() {
    local list=/etc/apt/sources.list.d/nvidia-cuda-ncu.list key=/usr/share/keyrings/nvidia-cuda-ncu.asc
    local url home
    url=${NCU_URL}/$(nvidia_repository)
    fetch "${url}/3bf863cc.pub" "${NCU_SHA256}" "${key}"
    printf 'deb [signed-by=%s] %s/ /\n' "${key}" "${url}" >"${list}"
    apt_update
    apt_install "nsight-compute-${NCU_VERSION:?}"
    rm "${list}" "${key}"
    home=/opt/nvidia/nsight-compute/${NCU_VERSION}
    rm -rf "${home}/host"
    ln -sf "${home}"/target/linux-desktop-*/ncu /usr/local/bin/ncu
}

# Debian's package of ncu without its window. Debian 13 has the sections, which say what is measured,
# in the package of the window: of that one they alone are taken.
install_debian() {
    local home
    with_non_free nsight-compute-target
    apt_install nsight-compute-target
    home=$(echo /usr/lib/*-linux-gnu/nsight-compute)
    if [[ ! -d ${home}/sections ]]; then
        (cd "${BUILD_DIR}" && apt-get download -qq -o APT::Sandbox::User=root nsight-compute &&
            dpkg -x nsight-compute_*.deb unpacked)
        mv "$(find "${BUILD_DIR}/unpacked" -type d -name sections -print -quit)" "${home}/sections"
    fi
    ln -sf "${home}"/target/linux-desktop-*/ncu /usr/local/bin/ncu
}

case ${NCU_SOURCE} in
    nvidia) install_nvidia ;;
    debian) install_debian ;;
    base) type -p ncu || die 'NSYS_SOURCE=base, but the base image has no ncu' ;;
    *) die "NSYS_SOURCE=${NCU_SOURCE} is not decided yet: build with nvidia, debian or base" ;;
esac
ncu --version
