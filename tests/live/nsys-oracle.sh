#!/usr/bin/env bash
# Unpack Nsight Systems from the distribution's own mirror into DIR, installing nothing:
#   tests/live/nsys-oracle.sh DIR
# prints the path of a DIR/nsys that profiles, imports, exports, and runs stats and analyze.
# Tests use it as nsys on machines without a GPU and as an oracle for our tables. It is NVIDIA's
# and proprietary (Debian: non-free): run it, keep it out of the repository and of images.
set -euo pipefail

readonly target=${1:?usage: nsys-oracle.sh DIR}
mkdir -p "${target}"
dir=$(cd "${target}" && pwd -P)
readonly dir

die() {
    printf 'nsys-oracle: %s\n' "$*" >&2
    exit 3
}

# This machine's own mirror of its distribution: never a host that is written here.
mirror() {
    # shellcheck disable=SC2016  # apt expands these, not the shell
    apt-get indextargets --format '$(ORIGIN) $(REPO_URI)' 'Created-By: Packages' |
        awk '$1 == "Debian" || $1 == "Ubuntu" { print $2; exit }'
}

# One source line with the area that has nsight-systems. bookworm's copy is of 2022: take trixie's.
source_line() {
    local uri=$1
    # shellcheck source=/dev/null
    case $(. /etc/os-release && printf '%s' "${ID}") in
        debian)
            printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s trixie main non-free contrib\n' "${uri}"
            ;;
        ubuntu)
            # shellcheck source=/dev/null
            printf 'deb %s %s main universe multiverse\n' "${uri}" "$(. /etc/os-release && printf '%s' "${VERSION_CODENAME}")"
            ;;
        *) die 'only Debian and Ubuntu carry nsight-systems' ;;
    esac
}

# apt with its own lists and cache, so that the machine's sources stay as they are.
private_apt() {
    apt-get -qq -o Dir::State="${dir}/apt" -o Dir::Cache="${dir}/apt" \
        -o Dir::State::status=/var/lib/dpkg/status \
        -o Dir::Etc::sourcelist="${dir}/apt/sources.list" -o Dir::Etc::sourceparts=- "$@"
}

unpack() {
    local package
    for package in "${dir}"/debs/*.deb; do
        dpkg -x "${package}" "${dir}"
    done
}

download() {
    local uri
    uri=$(mirror)
    [[ -n ${uri} ]] || die 'no Debian or Ubuntu mirror in the apt sources: run apt-get update'
    mkdir -p "${dir}/apt/lists/partial" "${dir}/apt/archives/partial" "${dir}/debs"
    source_line "${uri}" >"${dir}/apt/sources.list"
    private_apt update
    # As root, apt would fetch as its own user, who may not write here.
    (cd "${dir}/debs" &&
        private_apt -o APT::Sandbox::User=root download nsight-systems nsight-systems-target &&
        apt-get -qq -o APT::Sandbox::User=root download libssh-4)
}

# The distribution splits what NVIDIA ships as one folder: nsys looks for its importer beside its
# real file, and its stats for their Python modules beside themselves.
mend() {
    local beside=${dir}/usr/lib/x86_64-linux-gnu/nsight-systems host
    for host in "${dir}"/usr/lib/nsight-systems/host-*; do
        ln -sfn "${host}" "${beside}/${host##*/}"
        cp --recursive --no-clobber "${beside}"/target-*/python/lib/. "${host}/python/lib/"
    done
}

# Each start of nsys reads /proc/kallsyms: 0.4 of 0.84 s of CPU with the 122,000 symbols of a kernel. No
# test shows one, so root's nsys reads each hundredth. Not in a step of Slurm: from a mount namespace of its
# own, nsys lost its agent there, and the report, when the step was cancelled.
thin_kernel_symbols() {
    awk 'NR % 100 == 1' /proc/kallsyms >"${dir}/kallsyms"
    unshare --mount mount --bind "${dir}/kallsyms" /proc/kallsyms 2>/dev/null || rm "${dir}/kallsyms"
}

write_launcher() {
    printf "#!/bin/sh\ndir='%s'\n" "${dir}"
    cat <<'END'
nsys=${dir}/usr/lib/nsight-systems/target-linux-x64/nsys
export LD_LIBRARY_PATH="${dir}/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:${LD_LIBRARY_PATH}}"
if [ -e "${dir}/kallsyms" ] && [ -z "${SLURM_JOB_ID:-}" ] && [ "$(id -u)" = 0 ]; then
    exec unshare --mount sh -c 'mount --bind "$0" /proc/kallsyms; exec "$@"' "${dir}/kallsyms" "${nsys}" "$@"
fi
exec "${nsys}" "$@"
END
}

if [[ ! -x ${dir}/nsys ]]; then
    download
    unpack
    mend
    rm -rf "${dir}/debs" "${dir}/apt"
fi
thin_kernel_symbols
write_launcher >"${dir}/nsys.new"
chmod +x "${dir}/nsys.new"
mv "${dir}/nsys.new" "${dir}/nsys" # a test may run it
"${dir}/nsys" --version >&2 || die "the unpacked nsys does not start: see ${dir}"
printf '%s\n' "${dir}/nsys"
