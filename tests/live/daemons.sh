# shellcheck shell=bash
# To be sourced: programs in the background, each with a file of its process id and a file of its output.
# An id counts only while its process writes to that output. Files outlive a kill -9 of everything and a
# reboot; the kernel gives their ids to other programs, which must neither pass for ours nor be ended.

launch_daemon() { # launch_daemon ID_FILE OUTPUT COMMAND…: in a session of its own
  setsid "${@:3}" </dev/null >>"$2" 2>&1 &
  printf '%s\n' "$!" >"$1"
}

find_daemon() { # find_daemon ID_FILE OUTPUT: print the id of the process, or fail if it has ended
  local id
  id=$(cat "$1" 2>/dev/null) && [[ -n $id && /proc/$id/fd/1 -ef $2 ]] && printf '%s\n' "$id"
}

end_daemon() { # end_daemon ID_FILE OUTPUT [SIGNAL]
  local id
  ! id=$(find_daemon "$1" "$2") || kill -s "${3:-TERM}" "$id" 2>/dev/null || true
}
