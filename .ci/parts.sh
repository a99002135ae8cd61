# shellcheck shell=bash
# To be sourced: the parts of a run of CI. Those in the background have their output in a file, which is
# printed when they are joined, so that no line stands inside another part's output. Only a test that
# failed is told at once, by the line that tests/conftest.py prints: a reader need not wait for the end.

work=$(mktemp -d)
readonly work
declare -A processes=()
times=() closing=() code=0 whole=

# start PART COMMAND…: in the background, until `join PART`.
start() {
  local -r part=$1 began=$SECONDS
  shift
  (
    status=0
    : >"$work/$part.log"
    "$@" >>"$work/$part.log" 2>&1 </dev/null &
    child=$!
    # Not a pipe from the part: the daemons that it leaves would hold it open.
    tail -n +1 -s 0.2 -f --pid="$child" "$work/$part.log" | sed -un "s/^failed: /$part: &/p" &
    wait "$child" || status=$?
    printf '%d %d\n' "$status" "$((SECONDS - began))" >"$work/$part.end"
  ) &
  processes[$part]=$!
}

join() {
  local status seconds
  wait "${processes[$1]}"
  unset "processes[$1]"
  printf '\n== %s, which ran beside the parts above (after %d s)\n' "$1" "$SECONDS"
  cat "$work/$1.log"
  read -r status seconds <"$work/$1.end"
  note "$1" "$status" "$seconds"
}

# run PART COMMAND…: in the foreground. A failure is the run's exit code, and not its end.
run() {
  local -r part=$1 began=$SECONDS
  local status=0
  shift
  printf '\n== %s (after %d s)\n' "$part" "$SECONDS"
  "$@" 2>&1 | tee "$work/$part.log" || status=$?
  note "$part" "$status" "$((SECONDS - began))"
}

must() { # must PART COMMAND…: what all other parts need
  run "$@"
  [[ $code == 0 ]] || exit "$code"
}

note() { # note PART CODE SECONDS; pytest's last line is printed again at the end
  local line
  # -a: what a test prints may be no text, of which grep would print "binary file matches" alone.
  line=$(grep -aE '(passed|failed|skipped|errors?)\b.* in [0-9.]+s' "$work/$1.log" | tail -n 1 || true)
  times+=("$(printf '%6d s  %s' "$3" "$1")")
  [[ -z $line ]] || closing+=("$1: $line")
  [[ $2 == 0 ]] || closing+=("$1: failed with exit code $2")
  [[ $code != 0 ]] || code=$2
}

finish() { # the run's own end, with its exit code
  whole=yes
  exit "$code"
}

# At the end of a run: what a reader of the log looks for first. A signal's number is not known here: bash
# ends by the signal after this.
end() {
  local status=$?
  [[ -n $whole || $status != 0 ]] || status="a signal"
  printf '\n== the slowest live tests\n'
  sed -n '/^=* slowest tests =*$/,/^=/p' "$work/live.log" 2>/dev/null | grep -v '^=' || true
  printf '\n== seconds of each part\n'
  printf '%s\n' "${times[@]}" "${closing[@]}"
  printf '== ended with %s after %d s\n' "$status" "$SECONDS"
  rm -rf -- "$work"
}
trap end EXIT
