#!/bin/bash
# Stands before python3 on PATH: nsys around a process whose command line matches.
here=${0%/*}
real=$(type -ap python3 | grep -v "^$here/" | sed -n 1p)
if [[ "$0 $*" =~ $INJECTION_MATCH ]]; then
  read -ra options <<<"$DEVTOOL_ARGS"
  exec nsys "${options[@]}" "$real" "$@"
fi
exec "$real" "$@"
