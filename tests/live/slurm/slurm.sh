#!/usr/bin/env bash
# A real Slurm of our own on this machine: one controller and two nodes, two CPUs each. As root.
#   tests/live/slurm/slurm.sh start DIR [LINE…]    prints the path of slurm.conf, for SLURM_CONF;
#                                                  each LINE goes into it, the line `accounting`
#                                                  as those of accounting.sh
#   tests/live/slurm/slurm.sh again DIR NAME       a server that was killed: slurmctld, slurmd.n2
#   tests/live/slurm/slurm.sh stop DIR
# It lives in DIR, with its own munge key, socket and ports; the machine's own stays as it is.
set -euo pipefail

readonly verb=${1:?usage: slurm.sh start|again|stop DIR} target=${2:?usage: slurm.sh start|again|stop DIR}
mkdir -p "${target}"
shift 2
readonly lines=("$@")
dir=$(cd "${target}" && pwd -P)
readonly dir
export PATH=${PATH}:/usr/sbin SLURM_CONF=${dir}/slurm.conf
# shellcheck source=servers.sh
source "${0%/*}/servers.sh"

write_configs() {
    local controller=$1 first=$2 second=$3 host
    host=$(hostname -s)
    cat >"${SLURM_CONF}" <<END
ClusterName=gpu-profile-test
SlurmctldHost=${host}(127.0.0.1)
SlurmctldPort=${controller}
SlurmUser=root
AuthInfo=socket=${dir}/munge.sock
StateSaveLocation=${dir}/state
SlurmctldPidFile=${dir}/slurmctld.pid
SlurmctldLogFile=${dir}/slurmctld.log
SlurmdPidFile=${dir}/slurmd.%n.pid
SlurmdLogFile=${dir}/slurmd.%n.log
SlurmdSpoolDir=${dir}/spool.%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobCompType=jobcomp/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
SlurmdTimeout=30
InactiveLimit=0
KillWait=90
MinJobAge=300
SchedulerParameters=sched_min_interval=100000,batch_sched_delay=0
GresTypes=gpu
NodeName=n1 NodeHostname=${host} NodeAddr=127.0.0.1 Port=${first} CPUs=2 RealMemory=1000 Gres=gpu:1
NodeName=n2 NodeHostname=${host} NodeAddr=127.0.0.1 Port=${second} CPUs=2 RealMemory=1000 Gres=gpu:1
PartitionName=main Nodes=n[1-2] Default=YES MaxTime=60 DefaultTime=10 State=UP OverSubscribe=NO
END
}

# A GPU that only Slurm believes in: what jobs ask for is the real thing.
write_gres() { printf 'NodeName=n%d Name=gpu File=/dev/%s\n' 1 null 2 zero >"${dir}/gres.conf"; }

# Instead of our own line of that name, where there is one.
add_lines() {
    local line
    for line in "${lines[@]}"; do
        case ${line} in
            accounting) "${0%/*}/accounting.sh" start "${dir}" >>"${SLURM_CONF}" ;;
            *) sed -i "/^${line%%=*}=/d" "${SLURM_CONF}" && printf '%s\n' "${line}" >>"${SLURM_CONF}" ;;
        esac
    done
}

# Jobs find the nodes by their names, which this machine's own /etc/hosts does not have.
launch_node() {
    # shellcheck disable=SC2016  # the inner shell expands these
    launch "slurmd.$1" unshare --mount --propagation slave \
        sh -c 'mount --bind "$0" /etc/hosts && exec "$@"' "${dir}/hosts" slurmd -D -N "$1"
}

both_idle() { [[ $(sinfo --noheader --Node --states=idle | wc -l) -eq 2 ]]; }

start() {
    local program
    [[ ${EUID} -eq 0 ]] || die 'slurmd needs root'
    for program in munged slurmctld slurmd; do
        command -v "${program}" >/dev/null || die "no ${program}: install slurm-wlm and munge"
    done
    mkdir -p "${dir}/state" "${dir}/spool.n1" "${dir}/spool.n2"
    # munged trusts no directory that others may write to, /tmp included, unless forced.
    [[ -f ${dir}/munge.key ]] || (umask 077 && head -c 1024 /dev/urandom >"${dir}/munge.key")
    chmod 0711 "${dir}"
    write_gres
    # shellcheck disable=SC2046  # three words are meant
    write_configs $(free_ports 3)
    launch munged munged --foreground --force --key-file="${dir}/munge.key" \
        --socket="${dir}/munge.sock" --pid-file="${dir}/munged.pid" \
        --log-file="${dir}/munged.log" --seed-file="${dir}/munged.seed"
    await munged test -S "${dir}/munge.sock"
    add_lines
    launch slurmctld slurmctld -D -c
    await slurmctld scontrol ping
    { cat /etc/hosts && printf '127.0.0.1 n1 n2\n'; } >"${dir}/hosts"
    launch_node n1
    launch_node n2
    await 'both nodes' both_idle
    printf '%s\n' "${SLURM_CONF}"
}

# The controller reads the state that it left (without -c).
again() {
    case $1 in
        slurmctld)
            launch slurmctld slurmctld -D
            await slurmctld scontrol ping
            ;;
        slurmd.*)
            launch_node "${1#slurmd.}"
            await 'both nodes' both_idle
            ;;
        *) die "no server $1" ;;
    esac
}

# The process ids of all that have a log of ours open (slurmd, slurmctld, slurmstepd), and of the
# ranks of steps.
list_left() {
    {
        find /proc/[0-9]*/fd -lname "${dir}/*.log"
        grep -lszFx "SLURM_CONF=${SLURM_CONF}" /proc/[0-9]*/environ |
            xargs --no-run-if-empty grep -lsz '^SLURM_STEP_ID='
    } 2>/dev/null | cut -d/ -f3 | sort -u
}

# A slurmstepd whose controller has ended tries for minutes to tell it that its step has ended, and
# its slurmd waits for it. This happens where a slurmd was started again for a step that went on;
# without the slurmstepd, nothing ends the step's rank.
kill_left() {
    local left
    for _ in $(seq 50); do
        left=$(list_left || true)  # a process that ends meanwhile is an error of find and grep
        [[ -n ${left} ]] || return 0
        sleep 0.2
    done
    # shellcheck disable=SC2086  # one word a process
    kill -KILL ${left} 2>/dev/null || true
}

stop() {
    "${0%/*}/accounting.sh" stop "${dir}"
    end slurmd.n2 slurmd.n1 slurmctld munged
    kill_left
}

case ${verb} in
    again) again "${lines[0]}" ;;
    *) obey "${verb}" ;;
esac
