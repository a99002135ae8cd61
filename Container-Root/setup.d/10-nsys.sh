#!/usr/bin/env bash
# Install Nsight Systems' command line, and make it the only nsys of the image.
# shellcheck source=../lib/stage/common.sh
source /mnt/stage/common.sh

: "${NSYS_SOURCE:?}" # and for nvidia NSYS_VERSION, NSYS_URL and NSYS_SHA256

install_nvidia() {
    local list=/etc/apt/sources.list.d/nvidia-devtools.list key=/usr/share/keyrings/nvidia-devtools.asc
    local distribution url
    distribution=$(nvidia_distribution 'set NSYS_SOURCE=base')
    url=${NSYS_URL}/${distribution}/$(dpkg --print-architecture)
    fetch "${url}/nvidia.pub" "${NSYS_SHA256}" "${key}"
    printf 'deb [signed-by=%s] %s/ /\n' "${key}" "${url}" >"${list}"
    apt_update
    apt_install "nsight-systems-cli-${NSYS_VERSION:?}"
    rm "${list}" "${key}"
    dpkg -L "nsight-systems-cli-${NSYS_VERSION}" | awk '/\/target-linux-[^\/]*\/nsys$/ && !matches++'
}

# Debian's package hangs on a display server and on a driver: unpack it, leave its GUI, and put
# the two halves of its layout side by side again, which is where nsys looks for its importer.
install_debian() {
    local home=/opt/nvidia/nsight-systems unpacked=${BUILD_DIR}/unpacked package
    apt_install libelf1 libpfm4 libssh-4 libglib2.0-0
    mkdir -p "${unpacked}" "${home}"
    (cd "${BUILD_DIR}" && apt-get download -qq -o APT::Sandbox::User=root \
        nsight-systems nsight-systems-target)
    for package in "${BUILD_DIR}"/*.deb; do dpkg -x "${package}" "${unpacked}"; done
    mv "${unpacked}"/usr/lib/*-linux-gnu/nsight-systems/target-linux-* "${home}"
    mv "${unpacked}"/usr/lib/nsight-systems/host-linux-* "${home}"
    mv "${unpacked}/usr/share/doc/nsight-systems/copyright" "${home}"
    (cd "${home}"/host-linux-* && rm -rf libQt6WebEngine* translations resources Plugins nsys-ui* &&
        ln -sf /usr/lib/*-linux-gnu/libssh.so.4 libssh.so.4 && ln -sf libssh.so.4 libssh.so &&
        ./QdstrmImporter --version >/dev/null) || die "nsys' importer does not start"
    mend_stats "${home}"/host-linux-* "${home}"/target-linux-*
    printf '%s\n' "${home}"/target-linux-*/nsys
}

# `nsys stats` looks for its Python modules beside its scripts, in HOST, and Debian has them in TARGET.
# `nsys profile --stats` starts HOST/python/bin/python, which Debian leaves out: without it, it says "No
# data available". Its queries call median(), which only the SQLite of TARGET has.
mend_stats() { # mend_stats HOST TARGET
    local -r host=$1 target=$2
    cp "${target}"/python/lib/*.py "${host}/python/lib/"
    mkdir -p "${host}/python/bin"
    printf '#!/bin/sh\nLD_PRELOAD=%s/libsqlite3.so.0 exec /usr/bin/python3 "$@"\n' "${target}" \
        >"${host}/python/bin/python"
    chmod 0755 "${host}/python/bin/python"
}

use_only() {
    local nsys=$1 other
    while read -r other; do
        [[ $(realpath -- "${other}") == "$(realpath -- "${nsys}")" ]] || rm -- "${other}"
    done < <(type -ap nsys)
    rm -f /usr/local/cuda/bin/nsys # the CUDA toolkit's own would come first in PATH
    ln -sf "${nsys}" /usr/local/bin/nsys
}

case ${NSYS_SOURCE} in
    nvidia)
        use_only "$(install_nvidia | tail -n 1)"
        nsys --version | grep -F "${NSYS_VERSION}" || die "nsys is $(nsys --version), not ${NSYS_VERSION}"
        ;;
    debian)
        with_non_free nsight-systems
        use_only "$(install_debian | tail -n 1)"
        ;;
    base) type -p nsys || die 'NSYS_SOURCE=base, but the base image has no nsys' ;;
    *) die "NSYS_SOURCE=${NSYS_SOURCE} is not decided yet: build with nvidia, debian or base" ;;
esac
nsys --version
