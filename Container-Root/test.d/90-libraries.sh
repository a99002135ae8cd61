#!/usr/bin/env bash
# Every program and library that was installed finds the libraries it names.
# shellcheck source=lib.sh
source "$(dirname -- "$0")/lib.sh"

# These come with the driver, from the host, when a container gets GPUs.
readonly of_the_driver='libcuda\.so\.1|libnvidia-[a-z]+\.so\.1|libnvcuvid\.so\.1'

# nsys' reader of network cards is for images that have an RDMA stack, which MPI and EFA bring.
readonly cards='/opt/nvidia/nsight-systems*/CollectX/*'
left_out=()
[[ $(ldconfig -p) == *libibumad.so* ]] || left_out=(-not -path "${cards}")

is_elf() { [[ $(head -c 4 -- "$1" | tr -d '\0') == $'\x7fELF' ]]; }

# A library beside its user is found through the path of the program that loads both.
missing_of() {
    local file library
    for file in "$@"; do
        is_elf "${file}" || continue
        while read -r library; do
            [[ ${library} =~ ^(${of_the_driver})$ || -e ${file%/*}/${library} ]] ||
                printf '%s: %s\n' "${file}" "${library}"
        done < <(ldd "${file}" 2>/dev/null | awk '/not found/ { print $1 }')
    done
}
export -f missing_of is_elf
export of_the_driver

# 15-carrier.sh starts what is carried, whose Python finds its libraries from another folder.
find /usr/bin /usr/sbin /usr/lib/*-linux-gnu /usr/local /opt -xdev -type f \
    \( -perm /111 -o -name '*.so' -o -name '*.so.*' \) \
    -not -path '/opt/nvidia/nsight-systems*/host-linux-*' -not -path '/opt/gpu-profile/carrier/*' -not -name '*.py' "${left_out[@]}" -print0 |
    xargs -0 -n 50 -P "$(nproc)" bash -c 'missing_of "$@"' - >"${work}/missing"
[[ ! -s ${work}/missing ]] || fail "$(wc -l <"${work}/missing") libraries: $(head -n 5 "${work}/missing")"
pass 'all libraries resolve'
