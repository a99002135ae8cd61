# shellcheck shell=bash
# To be sourced: servers of our own in ${dir}, for the script that ${0} names. It has functions
# `start` and `stop`.

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

# Each in a session of its own, its process id in DIR/NAME.id: that is what `end` ends.
launch() {
    local name=$1
    shift
    setsid "$@" </dev/null >"${dir:?}/${name}.out" 2>&1 &
    printf '%s\n' "$!" >"${dir}/${name}.id"
}

end() {
    local name file
    for name in "$@"; do
        file=${dir:?}/${name}.id
        [[ -s ${file} ]] || continue
        kill "$(cat "${file}")" 2>/dev/null || true
        rm -f "${file}"
    done
}

obey() {
    case $1 in
        start) start ;;
        stop) stop ;;
        *) die "unknown verb $1" ;;
    esac
}
