#!/usr/bin/env bash
# Images like those that people have, with nothing of ours, made of the machine's own mirror:
#   tests/live/likeness.sh SUITE IMAGE [CHANGE…]   Debian's essential packages: no Python, no nsys
#   tests/live/likeness.sh musl IMAGE              musl's loader alone, as Alpine has it
# CHANGE is an instruction of a Dockerfile, such as 'USER 1000'. The files are kept in
# ~/.cache/gpu-profile/likeness for the next run.
set -euo pipefail

readonly suite=${1:?usage: likeness.sh SUITE IMAGE} image=${2:?usage: likeness.sh SUITE IMAGE}
shift 2
readonly cache=${XDG_CACHE_HOME:-${HOME}/.cache}/gpu-profile/likeness
archive=${cache}/${suite}.tar
mkdir -p "${cache}"

mirror() {
    # shellcheck disable=SC2016  # apt expands these, not the shell
    apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' 'Created-By: Packages' |
        awk '$1 == "Debian" && !matches++ { print $2 }'
}

make_debian() { mmdebstrap --quiet --variant=essential --components=main "${suite}" "$1" "$(mirror)"; }

make_musl() {
    local work
    work=$(mktemp -d)
    (cd "${work}" && apt-get download -qq -o APT::Sandbox::User=root musl && dpkg -x ./*.deb root)
    tar -C "${work}/root" -cf "$1" .
    rm -rf "${work}"
}

if [[ ! -s ${archive} ]]; then
    # By rename: a run that is killed meanwhile leaves no half of an archive for the next.
    draft=$(mktemp -p "${cache}" --suffix=.tar)
    if [[ ${suite} == musl ]]; then make_musl "${draft}"; else make_debian "${draft}"; fi
    mv "${draft}" "${archive}"
fi
docker import "${@/#/--change=}" "${archive}" "${image}" >/dev/null
