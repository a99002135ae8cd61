#!/usr/bin/env bash
# sshd as MPIJobs start it: with keys of the job, not of the image; as root, and as mpiuser.
# shellcheck source=lib.sh
source "$(dirname -- "$0")/lib.sh"
needs mpi

keys=$(find / -xdev \( -name 'ssh_host_*' -o -name 'id_rsa' -o -name 'id_ed25519' \) -print -quit)
[[ -z ${keys} ]] || fail "a key is in the image: ${keys}"

answers() { # answers USER PORT: a log-in with the job's key runs a command there
    local try reply
    for try in 1 2 3 4 5 6 7 8 9 10; do
        reply=$(ssh -i "${work}/key" -o BatchMode=yes -o ConnectTimeout=5 -p "$2" "$1@127.0.0.1" \
            'printf met' 2>"${work}/errors") && [[ ${reply} == met ]] && return
        sleep "0.${try}"
    done
    fail "no log-in as $1 on port $2: $(tail -n 2 "${work}/errors")"
}

ssh-keygen -q -t rsa -b 3072 -N '' -f "${work}/key"
mkdir -p /root/.ssh
install -m 644 "${work}/key.pub" /root/.ssh/authorized_keys # the operator's modes are no better
SSHD=2299 timeout 60 /startup.sh 2>"${work}/root.log" &
answers root 2299

install -o mpiuser -m 600 "${work}/key" /home/mpiuser/.ssh/id_rsa
install -o mpiuser -m 644 "${work}/key.pub" /home/mpiuser/.ssh/authorized_keys
setpriv --reuid mpiuser --regid mpiuser --clear-groups \
    /usr/sbin/sshd -De -f /home/mpiuser/.sshd_config 2>"${work}/mpiuser.log" &
answers mpiuser 2222
refused=$(ssh -o BatchMode=yes -o PreferredAuthentications=password -p 2299 root@127.0.0.1 true 2>&1) &&
    fail 'a log-in without a key succeeded'
pass "root on a port of choice and mpiuser on 2222; without a key: ${refused##*: }"
