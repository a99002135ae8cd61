#!/usr/bin/env bash
# libfabric has the EFA provider, and what AWS's installer says is what is there.
# shellcheck source=lib.sh
source "$(dirname -- "$0")/lib.sh"
needs libfabric

PATH=/opt/amazon/efa/bin:${PATH} fi_info -l >"${work}/providers" || fail 'fi_info does not run'
grep -qx 'efa:' "${work}/providers" || fail "no efa among $(grep -c ':$' "${work}/providers") providers"
if [[ ! -d /opt/amazon ]]; then
    pass "libfabric $(manifest components.libfabric) of the distribution, with efa"
    exit
fi

version=$(manifest components.efa_installer)
grep -q "EFA installer version: ${version}\$" /opt/amazon/efa_installed_packages ||
    fail "the manifest says ${version}, the installer $(head -n 1 /opt/amazon/efa_installed_packages)"
[[ ! -e /opt/amazon/openmpi5 ]] || fail 'two Open MPI of the installer'
for program in mpirun fi_info; do
    [[ $(realpath "$(command -v "${program}")") == /opt/amazon/* ]] ||
        fail "${program} is $(command -v "${program}"), not the installer's"
done
plugin=$(ldconfig -p | awk '$1 == "libnccl-net-ofi.so" && !matches++ { print $NF }')
[[ ${plugin} == /opt/amazon/ofi-nccl/* ]] || fail "the NCCL plugin is not found: ${plugin:-nowhere}"
[[ ${NCCL_NET_PLUGIN:-} == ofi ]] || fail 'NCCL_NET_PLUGIN is not set: NCCL could pass it over'
archives=$(find / -xdev -name 'aws-efa-installer*' -print -quit)
[[ -z ${archives} ]] || fail "the installer is still there: ${archives}"
pass "EFA installer ${version}, plugin ${plugin}"
