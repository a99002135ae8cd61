#!/usr/bin/env bash
# Build enroot and pyxis, which Debian does not have, from source trees of theirs (enroot 4.1,
# pyxis 0.24; a minute; gcc, make, libbsd-dev, libslurm-dev, and jq, parallel, squashfs-tools to run):
#   tests/live/slurm/pyxis.sh ENROOT PYXIS DIR
# prints the path of DIR/plugstack.conf. It is there for one test, which is left out without it.
set -euo pipefail

readonly usage='usage: pyxis.sh ENROOT PYXIS DIR'
readonly enroot=${1:?${usage}} pyxis=${2:?${usage}} target=${3:?${usage}}
mkdir -p "${target}/run"
dir=$(cd "${target}" && pwd -P)
readonly dir

die() {
    printf 'pyxis.sh: %s\n' "$*" >&2
    exit 3
}

# With glibc and Debian's libbsd for the submodules that the tree comes without.
build_enroot() {
    local bundler=deps/dist/makeself/bin/enroot-makeself
    cp -r "${enroot}" "$1/enroot"
    cd "$1/enroot"
    mkdir -p "${bundler%/*}"
    touch "${bundler}"
    make FORCE_GLIBC=1 CPPFLAGS='-D_GNU_SOURCE -include bsd/string.h' LDLIBS=-lbsd \
        -o deps -o "${bundler}" prefix="${dir}" install
}

build_pyxis() {
    cp -r "${pyxis}" "$1/pyxis"
    make -C "$1/pyxis"
    cp "$1/pyxis/spank_pyxis.so" "${dir}"
}

# Both nodes of slurm.sh are this machine: what tells them apart is slurmd's mount namespace.
configure() {
    local name node
    # shellcheck disable=SC2016  # enroot expands it
    node='$(id -u)-$(readlink /proc/self/ns/mnt | tr -dc 0-9)'
    for name in RUNTIME DATA CACHE; do
        printf 'ENROOT_%s_PATH %s\n' "${name}" "${dir}/run/${node}/${name}"
    done >"${dir}/etc/enroot/enroot.conf"
    printf 'required %s runtime_path=%s\n' "${dir}/spank_pyxis.so" "${dir}/run" >"${dir}/plugstack.conf"
}

build() {
    local work
    work=$(mktemp -d)
    # shellcheck disable=SC2064  # its name as it is now
    trap "rm -rf '${work}'" EXIT
    (build_enroot "${work}") && (build_pyxis "${work}") && configure
}

build >"${dir}/build.log" 2>&1 || die "see ${dir}/build.log"
printf '%s\n' "${dir}/plugstack.conf"
