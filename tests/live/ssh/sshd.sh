#!/usr/bin/env bash
# A real sshd of our own, on loopback only, for one user and one key:
#   tests/live/ssh/sshd.sh start DIR [LINE…]    prints its port; DIR/config is for `ssh -F`, host
#                                               gpu-host; each LINE goes into sshd_config
#   tests/live/ssh/sshd.sh stop DIR
# Nothing of the machine's own sshd, its configuration or the user's keys is read or changed.
set -euo pipefail

readonly verb=${1:?usage: sshd.sh start|stop DIR} target=${2:?usage: sshd.sh start|stop DIR}
shift 2
readonly lines=("$@")
mkdir -p "${target}"
dir=$(cd "${target}" && pwd -P)
readonly dir
# shellcheck source=../daemons.sh
source "${BASH_SOURCE[0]%/*}/../daemons.sh"

die() {
    printf 'sshd.sh: %s\n' "$*" >&2
    exit 3
}

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

write_keys() {
    local name
    for name in host_key user_key; do
        [[ -f ${dir}/${name} ]] || ssh-keygen -q -t ed25519 -N '' -C "${name}" -f "${dir}/${name}"
    done
    cp "${dir}/user_key.pub" "${dir}/authorized_keys"
}

write_configs() {
    local port=$1
    cat >"${dir}/sshd_config" <<END
Port ${port}
ListenAddress 127.0.0.1
HostKey ${dir}/host_key
PidFile ${dir}/sshd.pid
AuthorizedKeysFile ${dir}/authorized_keys
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
UsePAM no
StrictModes no
Subsystem sftp internal-sftp
END
    [[ ${#lines[@]} -eq 0 ]] || printf '%s\n' "${lines[@]}" >>"${dir}/sshd_config"
    cat >"${dir}/config" <<END
Host gpu-host
  HostName 127.0.0.1
  HostKeyAlias gpu-host
  Port ${port}
  User $(id -un)
  IdentityFile ${dir}/user_key
  IdentitiesOnly yes
  UserKnownHostsFile ${dir}/known_hosts
  GlobalKnownHostsFile /dev/null
  StrictHostKeyChecking yes
END
    printf 'gpu-host %s\n' "$(cut -d' ' -f1,2 "${dir}/host_key.pub")" >"${dir}/known_hosts"
}

# sshd wants to be called by its absolute path, and its privilege separation directory to be there.
start() {
    local program port
    program=$(PATH=${PATH}:/usr/sbin command -v sshd) || die 'no sshd: install openssh-server'
    [[ ${EUID} -ne 0 ]] || mkdir -p /run/sshd
    port=$(free_port)
    write_keys
    write_configs "${port}"
    rm -f "${dir}/sshd.pid" # which sshd writes once it listens
    launch_daemon "${dir}/sshd.id" "${dir}/sshd.out" "${program}" -D -f "${dir}/sshd_config" -E "${dir}/sshd.log"
    for _ in $(seq 50); do
        [[ -s ${dir}/sshd.pid ]] && break
        sleep 0.1
    done
    [[ -s ${dir}/sshd.pid ]] || die "sshd did not start: see ${dir}/sshd.log"
    printf '%s\n' "${port}"
}

stop() {
    end_daemon "${dir}/sshd.id" "${dir}/sshd.out"
    rm -f "${dir}/sshd.id"
}

case ${verb} in
    start) start ;;
    stop) stop ;;
    *) die "unknown verb ${verb}" ;;
esac
