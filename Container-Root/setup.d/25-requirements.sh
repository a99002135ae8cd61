#!/usr/bin/env bash
# Install the Python packages of the user's requirements file, on top of PyTorch.
# shellcheck source=../lib/stage/common.sh
source /mnt/stage/common.sh

: "${REQUIREMENTS:?}"
readonly file=/run/secrets/requirements list=/etc/gpu-profile/requirements.txt
[[ -s ${file} ]] || die 'the requirements file did not reach the build: build with gpu-profile build'

python3 -m pip --version >/dev/null 2>&1 || {
    apt_update
    install_tools python3-pip
}
options=()
if grep -q -- '--hash=' "${file}"; then
    options=(--require-hashes)
else
    log "WARNING: the packages of the requirements file are not locked: it has no hashes"
fi
# The image's torch fits its CUDA libraries; another one would be a second copy of several GB.
python3 -m pip freeze 2>/dev/null | sed -nE 's/^((torch|numpy|nvtx)==[^ ]+)$/\1/p' >"${BUILD_DIR}/present.txt"
[[ ${#options[@]} -gt 0 ]] || options=(--constraint "${BUILD_DIR}/present.txt")
pip_install "${options[@]}" --requirement "${file}"

# What is installed of the named packages, for the check in test.d: a marker may leave one out.
install -d "${list%/*}"
python3 - "${file}" >"${list}" <<'END'
import re
import sys
from importlib.metadata import PackageNotFoundError, version

for line in open(sys.argv[1], encoding="utf-8"):
    name = re.match(r"[A-Za-z0-9][\w.-]*", line)
    try:
        if name:
            print(f"{name[0]}=={version(name[0])}")
    except PackageNotFoundError:
        pass
END
remove_tools
