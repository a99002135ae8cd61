#!/usr/bin/env bash
# Build apptainer, which Debian does not have, from its Go module into DIR (ten minutes; Go, gcc, make):
#   tests/live/slurm/apptainer.sh DIR
# prints the path of DIR/bin/apptainer. It is there for one test, which is left out without it.
set -euo pipefail

readonly target=${1:?usage: apptainer.sh DIR} version=1.3.6
# The public checksum database has no line of it: this is what the module's proxy said first.
readonly sum=h1:7ygTX53UCpBd/qHVFY/7LiEUu4v/lV/tl5KdCS7qz4I=
mkdir -p "${target}"
dir=$(cd "${target}" && pwd -P)
readonly dir

die() {
    printf 'apptainer.sh: %s\n' "$*" >&2
    exit 3
}

field() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }

source_tree() {
    local said
    said=$(GONOSUMDB='github.com/apptainer/*' go mod download -json "github.com/apptainer/apptainer@v${version}") ||
        die "the module is not to be had: ${said}"
    [[ $(field Sum <<<"${said}") == "${sum}" ]] || die 'the module is another than the known one'
    cp -r "$(field Dir <<<"${said}")" "$1"
    chmod -R u+w "$1"
    # A module has no modes: what begins as a script is one.
    grep -rlIE --null '^#! ?/' "$1" | xargs -0 chmod +x
    printf '%s\n' "${version}" >"$1/VERSION"
}

build() {
    local work
    work=$(mktemp -d)
    # shellcheck disable=SC2064  # its name as it is now
    trap "rm -rf '${work}'" EXIT
    # Its makefile empties Go's cache: it gets one of its own.
    export GOCACHE=${work}/cache
    source_tree "${work}/source"
    cd "${work}/source"
    # A machine may lack a capability that root would be given anew: leave them as they are.
    ./mconfig --without-suid --without-seccomp --without-network --prefix="${dir}" -b ./build &&
        make -C build &&
        make -C build install &&
        sed -i 's/^root default capabilities = full/root default capabilities = file/' \
            "${dir}/etc/apptainer/apptainer.conf"
}

[[ -x ${dir}/bin/apptainer ]] || build >"${dir}/build.log" 2>&1 || die "see ${dir}/build.log"
printf '%s\n' "${dir}/bin/apptainer"
