#!/usr/bin/env bash
# Install EFA's user space: AWS's installer at its checksum and signature, or the distribution's.
# shellcheck source=../lib/stage/common.sh
source /mnt/stage/common.sh

: "${EFA_SOURCE:?}" # and for installer EFA_VERSION, EFA_URL, EFA_SHA256 and EFA_FINGERPRINT
readonly opt=/opt/amazon

verify_signature() {
    local archive=$1 home=${BUILD_DIR}/gnupg status
    install_tools gnupg
    install -d -m 700 "${home}"
    fetch "${EFA_URL}/aws-efa-installer.key" '' "${BUILD_DIR}/key" >/dev/null # pinned by fingerprint
    fetch "${EFA_URL}/$(basename "${archive}").sig" '' "${archive}.sig" >/dev/null
    gpg --homedir "${home}" --batch --quiet --import "${BUILD_DIR}/key"
    status=$(gpg --homedir "${home}" --batch --status-fd 1 --verify "${archive}.sig" "${archive}" 2>/dev/null) ||
        status=
    grep -q "^\[GNUPG:\] VALIDSIG .*${EFA_FINGERPRINT:?}" <<<"${status}" ||
        die "${archive##*/} is not signed by the key ${EFA_FINGERPRINT}"
    log "signed by ${EFA_FINGERPRINT}"
}

since() { sort -VC <<<"$1"$'\n'"${EFA_VERSION}"; }

# From 1.48 on it takes every NVIDIA image for an NGC one, and leaves out what it needs there.
installer_options() {
    printf '%s\n' -y --skip-kmod --skip-limit-conf --no-verify
    ! since 1.30.0 || echo --mpi=openmpi4
    ! since 1.48.0 || printf '%s\n' --disable-ngc --disable-build-ngc
}

run_installer() {
    local archive=${BUILD_DIR}/aws-efa-installer-${EFA_VERSION:?}.tar.gz options
    fetch "${EFA_URL:?}/${archive##*/}" "${EFA_SHA256?}" "${archive}"
    verify_signature "${archive}"
    tar -xzf "${archive}" -C "${BUILD_DIR}"
    rm "${archive}" "${archive}.sig"
    apt_install environment-modules tcl
    mapfile -t options < <(installer_options)
    log "efa_installer.sh ${options[*]}"
    (cd "${BUILD_DIR}/aws-efa-installer" && ./efa_installer.sh "${options[@]}")
    rm -rf "${BUILD_DIR}/aws-efa-installer"
    grep -q "EFA installer version: ${EFA_VERSION}\$" "${opt}/efa_installed_packages" ||
        die "the installer says it installed $(head -n 1 "${opt}/efa_installed_packages")"
}

# The plugin's place changed with 1.44, and it differs by distribution: take the one that is there.
plugin_directory() {
    local library
    for library in "${opt}"/ofi-nccl/lib{,64}{,/*-linux-gnu}/libnccl-net{-ofi,}.so; do
        [[ -e ${library} ]] && dirname "${library}" && return
    done
    die "the installer left no NCCL plugin below ${opt}/ofi-nccl"
}

# Libraries are found through the linker's own table: it works in SSH sessions too.
announce() {
    local directory
    directory=$(plugin_directory)
    printf '%s\n' "${opt}/efa/lib" "${opt}/openmpi/lib" "${directory}" \
        >/etc/ld.so.conf.d/000-gpu-profile-efa.conf
    [[ -e ${directory}/libnccl-net-ofi.so ]] || ln -s libnccl-net.so "${directory}/libnccl-net-ofi.so"
}

one_mpi() {
    rm -rf /opt/hpcx /usr/local/mpi "${opt}/openmpi5" /etc/ld.so.conf.d/hpcx.conf
    local others
    others=$(dpkg-query -W -f '${Package}\n' 'openmpi-bin' 'mpich' 2>/dev/null || true)
    # shellcheck disable=SC2086  # words
    [[ -z ${others} ]] || apt-get purge -y -qq ${others}
    [[ -x ${opt}/openmpi/bin/mpirun ]] || die "the installer left no mpirun in ${opt}/openmpi"
}

apt_update
case ${EFA_SOURCE} in
    installer)
        run_installer
        one_mpi
        announce
        remove_tools
        ;;
    distro) apt_install ibverbs-providers libfabric-bin libfabric1 rdma-core ;;
esac
ldconfig
PATH=${opt}/efa/bin:${PATH} fi_info -l | grep -x 'efa:' || die 'this libfabric has no EFA provider'
