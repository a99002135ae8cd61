#!/usr/bin/env bash
# What every component and every image needs. Components are built side by side on this, so
# accounts that more than one of them could add are made here, with one number each.
# shellcheck source=../lib/stage/common.sh
source /mnt/stage/common.sh

rm -f /etc/apt/apt.conf.d/docker-clean # the build's cache mounts keep archives, layers do not
apt_update
apt_install ca-certificates curl libcap2-bin procps python3 tini

add_system_user() {
    getent passwd "$1" >/dev/null || useradd --system --no-create-home --home-dir "$2" \
        --shell /usr/sbin/nologin --gid "$3" "$1"
}
getent group _ssh >/dev/null || groupadd --system _ssh
getent group messagebus >/dev/null || groupadd --system messagebus
add_system_user sshd /run/sshd nogroup
mkdir -p /run/sshd
add_system_user messagebus /nonexistent messagebus

rm -rf /var/log/*.log /var/log/apt "${BUILD_DIR}"
