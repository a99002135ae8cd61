#!/usr/bin/env bash
# What a container of this image does when it is given nothing to do: stay, until it is stopped.
# With SSHD=PORT in its environment it also serves SSH there, with host keys of its own.
set -euo pipefail

if [[ -n ${SSHD:-} ]]; then
    ssh-keygen -A
    mkdir -p /run/sshd
    /usr/sbin/sshd -e -p "${SSHD}"
fi
exec sleep infinity
