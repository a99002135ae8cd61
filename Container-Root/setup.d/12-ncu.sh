#!/usr/bin/env bash
# Install Nsight Compute's command line, without its window.
# shellcheck source=../lib/stage/common.sh
source /mnt/stage/common.sh

: "${NCU_SOURCE:?}" # and for nvidia NCU_VERSION, NCU_URL and NCU_SHA256

nvidia_architecture() {
    case $(dpkg --print-architecture) in
        amd64) printf x86_64 ;;
        arm64) printf sbsa ;;
        *) die 'NVIDIA has no Nsight Compute for this architecture: set INSTALL_NCU=false' ;;
    esac
}

# The window (host) is 600 MB that no pod opens.
install_nvidia() {
    local list=/etc/apt/sources.list.d/nvidia-cuda-ncu.list key=/usr/share/keyrings/nvidia-cuda-ncu.asc
    local distribution architecture url home
    # Each by itself: of several substitutions in one assignment only the last can end the script.
    distribution=$(nvidia_distribution 'set INSTALL_NCU=false, or use a base image with ncu and NSYS_SOURCE=base')
    architecture=$(nvidia_architecture)
    url=${NCU_URL}/${distribution}/${architecture}
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
