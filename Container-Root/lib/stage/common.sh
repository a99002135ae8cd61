# What every setup.d script may use. Sourced: it sets strict mode for the script too.
# shellcheck shell=bash
set -euo pipefail
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 TERM=dumb
readonly CA_BUNDLE=/run/secrets/ca_bundle
readonly PIP_CONF=/run/secrets/pip_conf
readonly APT_PREFERENCES=/run/secrets/apt_preferences # versions of packages from the lock
readonly PROXIES=/run/secrets/proxies # proxies with a password: NAME=URL lines
readonly NETRC_FILE=/run/secrets/netrc # users and passwords of the settings' URLs
readonly BUILD_DIR=/var/tmp/gpu-profile-build # never collected into the image
mkdir -p "${BUILD_DIR}"

# Lines of the build's log hold no user and password of a URL: https://***@host/x.
log() { printf '%s: %s\n' "${COMPONENT:-base}" "$*" | sed -E 's#(://)[^/@[:space:]]+@#\1***@#g'; }

die() {
    log "$*" >&2
    exit 1
}

# The CA bundle is a build secret: pointed to while the step runs, never copied.
apt_config=$(mktemp)
readonly apt_config
if [[ -s ${CA_BUNDLE} ]]; then
    export SSL_CERT_FILE=${CA_BUNDLE} CURL_CA_BUNDLE=${CA_BUNDLE} GIT_SSL_CAINFO=${CA_BUNDLE}
    export PIP_CERT=${CA_BUNDLE} REQUESTS_CA_BUNDLE=${CA_BUNDLE}
    printf 'Acquire::https::CAInfo "%s";\n' "${CA_BUNDLE}" >"${apt_config}"
fi
if [[ -s ${APT_PREFERENCES} ]]; then
    printf 'Dir::Etc::preferences "%s";\n' "${APT_PREFERENCES}" >>"${apt_config}"
fi
[[ ! -s ${PIP_CONF} ]] || export PIP_CONFIG_FILE=${PIP_CONF}
export APT_CONFIG=${apt_config}

if [[ -s ${PROXIES} ]]; then
    while IFS= read -r proxy; do export "${proxy?}"; done <"${PROXIES}"
fi

# pip reads NETRC, git the home directory's .netrc, and apt a file of its own, where a password for
# plain http counts only with the scheme before the host (apt_auth.conf(5)).
netrc_home=$(mktemp -d)
readonly netrc_home
netrc_options=()
if [[ -s ${NETRC_FILE} ]]; then
    export NETRC=${NETRC_FILE}
    netrc_options=(--netrc-file "${NETRC_FILE}")
    ln -s "${NETRC_FILE}" "${netrc_home}/.netrc"
    sed 'p; s#^machine #machine http://#' "${NETRC_FILE}" >"${netrc_home}/apt"
    printf 'Dir::Etc::netrc "%s";\n' "${netrc_home}/apt" >>"${apt_config}"
fi

apt_update() {
    apt-get update -qq -o APT::Update::Error-Mode=any
}

# Left out of every package: manuals and translations (copyright files stay), PyTorch's own tests,
# drivers of displays, and AMD's GPU compiler, which UCX asks for and only its ROCm plugin uses.
readonly EXCLUDED=(
    '/usr/share/doc/*' '/usr/share/man/*' '/usr/share/info/*' '/usr/share/locale/*'
    '/usr/lib/python3/dist-packages/torch/bin/test_*' '/usr/lib/*/dri/*'
    '/usr/lib/*/ucx/*_rocm.so*' '/usr/lib/*/libamdhip64.so*' '/usr/lib/*/libhiprtc*.so*'
    '/usr/lib/*/libamd_comgr.so*' '/usr/lib/*/libLLVM-*' '/usr/lib/*/libLLVM.so*' '/usr/lib/llvm-*'
)

# Install packages for the image: no recommends, nothing of EXCLUDED.
apt_install() {
    apt-get install -y -qq --no-install-recommends -o Dpkg::Use-Pty=0 \
        -o Dpkg::Options::=--force-confold -o Dpkg::Options::=--force-unsafe-io \
        "${EXCLUDED[@]/#/-oDpkg::Options::=--path-exclude=}" \
        -o Dpkg::Options::='--path-include=/usr/share/doc/*/copyright' "$@"
}

# with_non_free PACKAGE: update the lists, with Debian's non-free section where PACKAGE needs it.
with_non_free() {
    apt_update
    apt-cache show "$1" >/dev/null 2>&1 && return
    local uri
    # shellcheck disable=SC2016  # apt expands these
    uri=$(apt-get indextargets --format '$(ORIGIN) $(COMPONENT) $(REPO_URI)' 'Created-By: Packages' |
        awk '$1 == "Debian" && $2 == "main" && !matches++ { print $3 }')
    [[ -n ${uri} ]] || die "$1 is not in this distribution: set NSYS_SOURCE=nvidia or base"
    # shellcheck source=/dev/null
    printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s %s contrib non-free\n' \
        "${uri}" "$(. /etc/os-release && printf '%s' "${VERSION_CODENAME}")" >/etc/apt/sources.list.d/non-free.list
    apt_update
    rm /etc/apt/sources.list.d/non-free.list
}

packages() { dpkg-query -W -f '${binary:Package}\n' | sort; }

# Install what only the build needs; remove_tools takes it away again with all it brought.
install_tools() {
    packages >"${BUILD_DIR}/before"
    apt_install "$@"
    packages | comm -13 "${BUILD_DIR}/before" - >>"${BUILD_DIR}/tools"
}

remove_tools() {
    [[ -s ${BUILD_DIR}/tools ]] || return 0
    log "removing $(wc -l <"${BUILD_DIR}/tools") build packages"
    xargs apt-mark auto <"${BUILD_DIR}/tools" >/dev/null
    # Of what apt finds unneeded, only ours: a base's own packages stay.
    apt-get autoremove -s -o APT::AutoRemove::RecommendsImportant=false \
        -o APT::AutoRemove::SuggestsImportant=false | awk '$1 == "Remv" { print $2 }' | sort >"${BUILD_DIR}/unneeded"
    sed 's/:.*//' "${BUILD_DIR}/tools" | sort | comm -12 - "${BUILD_DIR}/unneeded" |
        xargs -r apt-get purge -y -qq -o Dpkg::Use-Pty=0 >/dev/null
    rm "${BUILD_DIR}/tools"
}

# nvidia_distribution ADVICE: which of NVIDIA's apt repositories, which are Ubuntu's. Their packages
# hold their own libraries, so Debian takes the nearest one. gpu_profile/declared/base_name.py chooses
# the same.
nvidia_distribution() {
    # shellcheck source=/dev/null
    case $(. /etc/os-release && printf '%s%s' "${ID}" "${VERSION_ID//./}") in
        debian11) printf 'ubuntu2004' ;;
        debian12) printf 'ubuntu2204' ;;
        debian13) printf 'ubuntu2404' ;;
        ubuntu*) (. /etc/os-release && printf '%s' "${ID}${VERSION_ID//./}") ;;
        *) die "NVIDIA has apt repositories for Debian and Ubuntu only: $1" ;;
    esac
}

# fetch URL SHA256 FILE: an empty sha256 is an unlocked download, and says so.
fetch() {
    local url=$1 sha256=$2 file=$3
    log "fetching ${url}"
    curl -fsSL "${netrc_options[@]}" --retry 4 --retry-connrefused --connect-timeout 15 -o "${file}" "${url}" ||
        die "cannot fetch ${url}: set the component's _URL to a mirror that this build reaches"
    if [[ -z ${sha256} ]]; then
        log "WARNING: ${url} is not locked: no sha256 is set for it"
    elif ! sha256sum --check --status <<<"${sha256}  ${file}"; then
        die "checksum mismatch: ${url} has sha256 $(sha256sum "${file}" | cut -d' ' -f1), expected ${sha256}"
    fi
}

# fetch_source PREFIX DIR: the tree that PREFIX_URL means: a checkout that the build was given, an
# archive with PREFIX_SHA256, or a repository whose tag PREFIX_VERSION is PREFIX_COMMIT.
fetch_source() {
    local prefix=$1 dir=$2 url=${1}_URL version=${1}_VERSION commit=${1}_COMMIT sha256=${1}_SHA256
    mkdir -p "${dir}"
    case ${!url} in
        local) cp -r /mnt/source/. "${dir}" ;;
        '') die "${prefix}_URL is empty: it takes a repository, an archive or a checkout" ;;
        *.tar.gz | *.tgz | *.tar.xz | *.tar.bz2)
            fetch "${!url}" "${!sha256}" "${BUILD_DIR}/${prefix}.archive"
            tar -xf "${BUILD_DIR}/${prefix}.archive" -C "${dir}" --strip-components=1
            ;;
        *)
            install_tools git
            HOME=${netrc_home} git -c advice.detachedHead=false clone --quiet --depth 1 --branch "${!version}" "${!url}" \
                "${dir}" || die "cannot clone ${!url} at ${!version}: set ${prefix}_URL to a mirror, \
an archive or a checkout"
            [[ -z ${!commit} || $(git -C "${dir}" rev-parse HEAD) == "${!commit}" ]] ||
                die "${!url} at ${!version} is commit $(git -C "${dir}" rev-parse HEAD), expected ${!commit}"
            ;;
    esac
}

# pip for the system's python3: hash-based bytecode does not depend on the files' dates.
pip_install() {
    SOURCE_DATE_EPOCH=315619200 PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore \
        PIP_DISABLE_PIP_VERSION_CHECK=1 python3 -m pip install --no-warn-script-location "$@"
}

# pip_packages LOCKED OPTION… -- PACKAGE…: install the files that LOCKED names, each by its hash
# (`NAME==VERSION --hash=sha256:…`, as `invoke lock` writes them); without LOCKED what the index has.
pip_packages() {
    local locked=$1 options=()
    shift
    while [[ $1 != -- ]]; do options+=("$1") && shift; done
    shift
    if [[ -z ${locked} ]]; then
        log "WARNING: $* is not locked: no hashes are set for it"
        pip_install "${options[@]}" "$@"
        return
    fi
    grep -oE '[^ ]+( --[^ ]+)+' <<<"${locked}" >"${BUILD_DIR}/requirements.txt"
    pip_install --require-hashes --only-binary=:all: --no-deps "${options[@]}" \
        -r "${BUILD_DIR}/requirements.txt"
}

# Compile jobs that memory allows: about 3 GiB each for CUDA templates, at most one a CPU.
compile_jobs() {
    local available_gib
    available_gib=$(awk '$1 == "MemAvailable:" { print int($2 / 1048576) }' /proc/meminfo)
    local jobs=$((available_gib / 3)) cpus
    cpus=$(nproc)
    ((jobs >= 1)) || jobs=1
    ((jobs <= cpus)) || jobs=${cpus}
    printf '%s\n' "${jobs}"
}
