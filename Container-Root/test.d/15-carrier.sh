#!/usr/bin/env bash
# What is carried to other images works here too, without this image's nsys, libraries and Python.
# shellcheck source=lib.sh
source "$(dirname -- "$0")/lib.sh"
needs carrier

carried=/opt/gpu-profile python=/opt/gpu-profile/carrier/bin/python3
version=$(manifest components.carrier)
"${python}" -I "${carried}/agent/carried.py" check "${carried}" || fail 'its own check refuses it'
"${python}" -E "${carried}/agent/profile_ranks.py" --nsys="${carried}/carrier/bin/nsys" \
    --output="${work}" --trace=osrt --sample=none --cpuctxsw=none -- env >"${work}/log" 2>&1 ||
    fail "profile_ranks.py: $(tail -n 3 "${work}/log")"
[[ -s $(echo "${work}"/rank0.*.nsys-rep) ]] || fail "no report: $(tail -n 3 "${work}/log")"
strange=$(grep -E '^(LD_LIBRARY_PATH|PYTHONHOME)=.*gpu-profile' "${work}/log" || true)
[[ -z ${strange} ]] || fail "the program gets ${strange}"
pass "nsys ${version} is carried, for glibc $(sed -n 's/^glibc=//p' "${carried}/carrier/facts") and newer"
