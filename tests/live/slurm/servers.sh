# shellcheck shell=bash
# To be sourced: servers of our own in ${dir}, for the script that ${0} names. It has functions
# `start` and `stop`.
# shellcheck source=../daemons.sh
source "${BASH_SOURCE[0]%/*}/../daemons.sh"

die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 3
}

# free_ports N: so many, all different.
free_ports() {
    python3 -c 'import socket, sys
sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
print(*(s.getsockname()[1] for s in sockets))' "$1"
}

await() {
    local what=$1
    shift
    for _ in $(seq 150); do
        "$@" >/dev/null 2>&1 && return
        sleep 0.2
    done
    die "${what} did not start: see ${dir:?}"
}

# Each has its process id in DIR/NAME.id, and its output in DIR/NAME.out.
launch() { launch_daemon "${dir:?}/$1.id" "${dir}/$1.out" "${@:2}"; }

end() {
    local name
    for name in "$@"; do
        end_daemon "${dir:?}/${name}.id" "${dir}/${name}.out"
        rm -f "${dir}/${name}.id"
    done
}

obey() {
    case $1 in
        start) start ;;
        stop) stop ;;
        *) die "unknown verb $1" ;;
    esac
}
