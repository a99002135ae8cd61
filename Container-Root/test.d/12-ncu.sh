#!/usr/bin/env bash
# ncu starts, has the sections that `drill` asks for, and says the version of the manifest.
# shellcheck source=lib.sh
source "$(dirname -- "$0")/lib.sh"
needs ncu

version=$(manifest components.ncu)
[[ $(ncu --version) == *"${version}"* ]] || fail "manifest says ncu ${version}, $(ncu --version)"
export NV_COMPUTE_PROFILER_DISABLE_STOCK_FILE_DEPLOYMENT=1
ncu --list-sections >"${work}/sections" 2>&1 || fail "ncu --list-sections: $(tail -n 3 "${work}/sections")"
for section in SpeedOfLight SchedulerStats WarpStateStats; do
    grep -q "^${section} " "${work}/sections" || fail "ncu has no section ${section}"
done
pass "ncu ${version} ($(readlink -f "$(command -v ncu)"))"
