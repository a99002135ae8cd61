#!/usr/bin/env bash
# nsys is the one that was asked for, profiles a small program
# into a report with events, and prints its tables.
# shellcheck source=lib.sh
source "$(dirname -- "$0")/lib.sh"

nsys=$(command -v nsys) || fail 'there is no nsys'
[[ $(type -ap nsys | xargs -n 1 realpath | sort -u | wc -l) == 1 ]] ||
    fail "several nsys: $(type -ap nsys | tr '\n' ' ')"
version=$(manifest components.nsys)
[[ $(nsys --version) == *"${version}"* ]] || fail "manifest says nsys ${version}, $(nsys --version)"

cd "${work}"
cat >program.py <<'END'
import time
for _ in range(20):
    time.sleep(0.005)
END
nsys profile --trace=osrt --sample=none --cpuctxsw=none --stats=true --output=report python3 program.py \
    >log 2>&1 || fail "nsys profile: $(tail -n 3 log)"
grep -q nanosleep log || fail "nsys profile --stats prints no table: $(grep -aE 'ERROR|SKIPPED' log || tail -n 3 log)"
[[ -s report.nsys-rep ]] || fail "no report (is the importer missing?): $(tail -n 3 log)"
nsys stats --force-export=true --report=osrt_sum report.nsys-rep >log 2>&1
grep -q nanosleep log || fail "nsys stats prints no table: $(grep -a ERROR log || tail -n 3 log)"
nsys export --type=sqlite --force-overwrite=true --output=report.sqlite report.nsys-rep >log 2>&1 ||
    fail "nsys export: $(tail -n 3 log)"
events=$(python3 -c 'import sqlite3; print(sqlite3.connect("report.sqlite")
    .execute("SELECT count(*) FROM OSRT_API").fetchone()[0])')
((events >= 20)) || fail "${events} OS runtime events in the report, expected 20 or more"
pass "nsys ${version} (${nsys}), ${events} events"
