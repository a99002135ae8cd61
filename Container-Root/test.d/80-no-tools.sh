#!/usr/bin/env bash
# What only the build needed did not stay: no compiler, no pip, no headers of theirs.
# shellcheck source=lib.sh
source "$(dirname -- "$0")/lib.sh"

[[ ! -x /usr/local/cuda/bin/nvcc ]] || skip 'the base image is a devel one, with compilers of its own'
for tool in gcc g++ cc1plus nvcc make git gpg pip3; do
    ! path=$(command -v "${tool}") || fail "${path} is left in the image"
done
left=$(find /usr/lib/gcc* /var/tmp/gpu-profile-build /out /mnt -mindepth 1 -print -quit 2>/dev/null || true)
[[ -z ${left} ]] || [[ ${left} == /usr/lib/gcc ]] || fail "${left} is left in the image"
pass 'no build tools'
