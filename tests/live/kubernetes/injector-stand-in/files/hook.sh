#!/bin/bash
# Stands before python3 on PATH: nsys around a process whose command line matches.
here=${0%/*}
real=$(type -ap python3 | grep -v "^$here/" | sed -n 1p)
if [[ "$0 $*" =~ $INJECTION_MATCH ]]; then
  words=${DEVTOOL_ARGS//'%{POD_FULLNAME}'/$HOSTNAME} # as NVIDIA's documentation names them
  words=${words//'{PROCESS_NAME}'/python3}
  words=${words//'{TIMESTAMP}'/$(date +%s)}
  words=${words//'{UID}'/$RANDOM}
  read -ra options <<<"$words"
  exec nsys "${options[@]}" "$real" "$@"
fi
exec "$real" "$@"
