#!/usr/bin/env bash
# Make /opt/gpu-profile/carrier: nsys, its importer, their libraries and a small Python, which run in
# any image with glibc. Libraries and Python are of an old release: a program that is linked on Debian
# 13 wants glibc 2.38, one of Debian 11 wants 2.29. NVIDIA's files stay as they are.
# shellcheck source=../lib/stage/common.sh
source /mnt/stage/common.sh

readonly CARRIER=/opt/gpu-profile/carrier OLD=${BUILD_DIR}/old APT=${BUILD_DIR}/old-apt
# What the importers of the known versions of nsys need, and Python. What nothing needs is not copied.
readonly LIBRARIES=(
    libelf1 zlib1g libpfm4 libstdc++6 libgcc-s1 libdw1 liblzma5 libbz2-1.0 libffi7 libexpat1
)
# Parts of nsys that neither record nor import: its tables, and what only graphics programs need.
readonly UNUSED=(python reports rules sqlite3 vulkan-layers libnvperf_grfx_host.so 'libcupti.so.10.*')
readonly UNUSED_MODULES=(test idlelib tkinter lib2to3 ensurepip pydoc_data distutils turtledemo)
readonly OF_GLIBC='^(ld-linux.*|lib(c|m|pthread|dl|rt|util|resolv|nsl|anl))\.so'

old_release() {
    # shellcheck source=/dev/null
    case $(. /etc/os-release && printf '%s' "${ID}") in
        debian) printf 'bullseye main' ;;
        ubuntu) printf 'focal main universe' ;;
        *) die 'INSTALL_CARRIER needs a base of Debian or Ubuntu: set INSTALL_CARRIER=false' ;;
    esac
}

old_apt() {
    apt-get -qq -o Dir::Etc::sourcelist="${APT}/sources.list" -o Dir::Etc::sourceparts=- \
        -o Dir::State="${APT}" -o Dir::State::status=/dev/null -o Dir::Cache="${APT}" \
        -o APT::Sandbox::User=root "$@"
}

# The base's own mirror has its distribution's old releases too, unless CARRIER_URL names another one.
name_old_source() {
    local uri=${CARRIER_URL:-} keyring
    # shellcheck disable=SC2016  # apt expands these
    [[ -n ${uri} ]] || uri=$(apt-get indextargets --format '$(ORIGIN) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
        awk '($1 == "Debian" || $1 == "Ubuntu") && $2 == "main" && !matches++ { print $3 }')
    [[ -n ${uri} ]] || die 'the base names no mirror of its distribution: set CARRIER_URL'
    # shellcheck source=/dev/null
    keyring=/usr/share/keyrings/$(. /etc/os-release && printf '%s' "${ID}")-archive-keyring.gpg
    printf 'deb [signed-by=%s] %s %s\n' "${keyring}" "${uri}" "$(old_release)"
}

unpack_old() {
    local python package
    mkdir -p "${APT}/lists/partial" "${APT}/archives/partial" "${APT}/debs" "${OLD}"
    name_old_source >"${APT}/sources.list"
    old_apt update || die "the base's mirror has no $(old_release): set CARRIER_URL to one that has, or INSTALL_CARRIER=false"
    python=$(apt-cache -o Dir::Etc::sourcelist="${APT}/sources.list" -o Dir::Etc::sourceparts=- \
        -o Dir::State="${APT}" -o Dir::State::status=/dev/null -o Dir::Cache="${APT}" depends python3-minimal |
        awk '/Depends: python3\.[0-9]+-minimal/ && !matches++ { sub("-minimal", "", $2); print $2 }')
    (cd "${APT}/debs" && old_apt download "${LIBRARIES[@]}" \
        "${python}-minimal" "lib${python}-minimal" "lib${python}-stdlib")
    for package in "${APT}"/debs/*.deb; do dpkg -x "${package}" "${OLD}"; done
}

# list_needed FILE: the libraries that it needs and that are not glibc's.
list_needed() {
    patchelf --print-needed "$1" 2>/dev/null | grep -vE "${OF_GLIBC}" || true
}

# nsys reaches other machines by libssh, which its importer links and never calls. An old libssh lacks
# the versions that Debian's nsys asks for, and brings Kerberos along: an empty one takes its place.
stub_libssh() { # stub_libssh FILE: functions of the names and versions that libSshClient.so asks for
    local names=${BUILD_DIR}/libssh-names
    nm -D --undefined-only "${HOST}/libSshClient.so" | awk '$2 ~ /@LIBSSH/ { sub("@+", " ", $2); print $2 }' |
        sort >"${names}"
    awk '{ printf ".globl %s\n.type %s, %%function\n%s: .long 0\n", $1, $1, $1 }' "${names}" >"${names}.s"
    awk '{ of[$2] = of[$2] $1 "; " } END { for (v in of) printf "%s { global: %s };\n", v, of[v] }' \
        "${names}" | sort >"${names}.map"
    as -o "${names}.o" "${names}.s"
    ld -shared -soname libssh.so.4 --version-script="${names}.map" -o "$1" "${names}.o"
}

find_library() {
    local place
    for place in "${OLD}" "${HOST}"; do find "${place}" -name "$1" -print -quit; done | sed -n 1p
}

# copy_libraries DIR FILE…: the libraries that FILEs need, and that those need, into DIR.
copy_libraries() {
    local dir=$1 file name source
    shift
    for file in "$@"; do
        for name in $(list_needed "${file}"); do
            [[ ! -e ${dir}/${name} ]] || continue
            source=$(find_library "${name}")
            [[ -n ${source} ]] || return 1
            cp --dereference "${source}" "${dir}/${name}"
            copy_libraries "${dir}" "${dir}/${name}" || return 1
        done
    done
}

# The program loads nsys' libraries and what lies beside them: the image's own libgcc_s stays its only one.
copy_target() {
    local to=${CARRIER}/nsight-systems/${TARGET##*/} name
    mkdir -p "${to}"
    cp -r --no-preserve=ownership "${TARGET}/." "${to}"
    for name in "${UNUSED[@]}"; do find "${to}" -mindepth 1 -maxdepth 1 -name "${name}" -exec rm -r {} +; done
    copy_libraries "${to}" "${to}/nsys" || die "no old library for ${to}/nsys"
    rm -f "${to}/libgcc_s.so.1"
    ln -s "../nsight-systems/${TARGET##*/}/nsys" "${CARRIER}/bin/nsys"
}

copy_importer() {
    local to=${CARRIER}/nsight-systems/${HOST##*/}
    mkdir -p "${to}"
    cp "${HOST}/QdstrmImporter" "${to}"
    find "${HOST}" -maxdepth 1 -name 'nvlog*' -exec cp -r {} "${to}" \;
    if [[ -e ${HOST}/libSshClient.so && -L ${HOST}/libssh.so ]]; then
        stub_libssh "${to}/libssh.so"
        cp "${to}/libssh.so" "${to}/libssh.so.4"
    fi
    copy_libraries "${to}" "${to}/QdstrmImporter" || die "no old library for ${to}/QdstrmImporter"
}

# Python finds its modules by ../lib from where it lies, and its libraries by the path written into it.
copy_python() {
    local to=${CARRIER}/python program module name
    program=$(find "${OLD}/usr/bin" -name 'python3.*' -type f -print -quit)
    name=${program##*/}
    mkdir -p "${to}/bin" "${to}/lib"
    cp "${program}" "${to}/bin"
    cp -r --no-preserve=ownership "${OLD}/usr/lib/${name}" "${to}/lib"
    for module in "${UNUSED_MODULES[@]}"; do rm -rf "${to}/lib/${name:?}/${module}"; done
    rm -f "${to}/lib/${name}/sitecustomize.py" "${to}/lib/${name}/EXTERNALLY-MANAGED"
    copy_libraries "${to}/lib" "${to}/bin/${name}" || die "no old library for ${name}"
    patchelf --force-rpath --set-rpath "\$ORIGIN/../lib" "${to}/bin/${name}"
    for module in "${to}/lib/${name}"/lib-dynload/*.so; do
        copy_libraries "${to}/lib" "${module}" || rm "${module}" # a module that the agent has no use for
    done
    ln -s "../python/bin/${name}" "${CARRIER}/bin/python3"
    find "${to}" -name __pycache__ -prune -exec rm -r {} +
    "${CARRIER}/bin/python3" -I -B -m compileall -q -f -s "${to}" --invalidation-mode unchecked-hash "${to}/lib/${name}" ||
        die "${name} does not start"
}

# facts: what the carrier holds and needs; files: the SHA-256 of each file, for copies elsewhere.
describe() {
    local glibc
    # readelf fails for the scripts among them.
    glibc=$({ find "${CARRIER}" -type f \( -name '*.so*' -o -perm -100 \) -exec readelf -V {} + 2>/dev/null || true; } |
        grep -oE 'Name: GLIBC_2\.[0-9]+' | sort -Vu | tail -n 1)
    (cd "${CARRIER}" && find . -type f -printf '%P\0' | sort -z | xargs -0 sha256sum >"${BUILD_DIR}/files")
    printf '%s\n' "architecture=$(uname -m)" "glibc=${glibc#*GLIBC_}" \
        "nsys=$("${CARRIER}/bin/nsys" --version | grep -oE '[0-9]{4}\.[0-9.]+' | sed -n 1p)" >"${CARRIER}/facts"
    mv "${BUILD_DIR}/files" "${CARRIER}/files"
}

try_out() {
    "${CARRIER}/bin/nsys" profile --trace=osrt --sample=none --cpuctxsw=none --export=sqlite \
        --output="${BUILD_DIR}/tried" "${CARRIER}/bin/python3" -I -c 'import ctypes, json, mmap' \
        >"${BUILD_DIR}/tried.log" 2>&1 || true
    [[ -s ${BUILD_DIR}/tried.nsys-rep && -s ${BUILD_DIR}/tried.sqlite ]] ||
        die "its nsys makes no report: $(tail -n 5 "${BUILD_DIR}/tried.log")"
}

TARGET=$(dirname "$(realpath "$(type -p nsys)")")
HOST=$(dirname "$(find "${TARGET%/*}" -mindepth 2 -maxdepth 2 -name QdstrmImporter -print -quit)")
[[ -x ${HOST}/QdstrmImporter ]] || die "the nsys in ${TARGET} has no importer: set INSTALL_CARRIER=false"
readonly TARGET HOST
apt_update
install_tools binutils patchelf
unpack_old
mkdir -p "${CARRIER}/bin"
copy_target
copy_importer
copy_python
describe
try_out
remove_tools
cat "${CARRIER}/facts"
