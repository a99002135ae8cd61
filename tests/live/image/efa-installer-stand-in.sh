#!/usr/bin/env bash
# A STAND-IN for AWS's efa_installer.sh, written for this test: the same options and the same
# places, and none of its software. Like the real one it installs packages through apt, refuses
# options it does not know, and from 1.48 on takes NVIDIA's images for NGC ones unless told not to.
set -euo pipefail
readonly EFA_INSTALLER_VERSION=@VERSION@
cd "$(dirname -- "$0")"

since() { sort -VC <<<"$1"$'\n'"${EFA_INSTALLER_VERSION}"; }

seen=
for option in "$@"; do
    case ${option} in
        -y | --skip-kmod | --skip-limit-conf | --no-verify | --mpi=openmpi4) ;;
        --disable-ngc | --disable-build-ngc) since 1.48.0 || seen=${option} ;;
        *) seen=${option} ;;
    esac
    [[ -z ${seen} ]] || { echo "Error: unknown option ${seen}" >&2 && exit 1; }
done
if since 1.48.0 && [[ " $* " != *' --disable-ngc '* || " $* " != *' --disable-build-ngc '* ]]; then
    echo 'libfabric1-aws : Depends: ibverbs-providers (>= 59)' >&2
    exit 1
fi
[[ -n $(find /var/lib/apt/lists -name '*_Packages*' -print -quit) ]] || { echo 'no apt lists' >&2 && exit 1; }
apt-get install -y -qq ./DEBS/*/*/*.deb
printf '# EFA installer version: %s\n# Debug packages installed: no\n# Packages installed:\n%s\n' \
    "${EFA_INSTALLER_VERSION}" "$(ls DEBS/*/*)" >/opt/amazon/efa_installed_packages
