#!/usr/bin/env bash
# Compile GDRCopy's library. Its kernel module is the host's.
# shellcheck source=../lib/stage/common.sh
source /mnt/stage/common.sh

apt_update
install_tools g++ make
fetch_source GDRCOPY "${BUILD_DIR}/gdrcopy"
make -C "${BUILD_DIR}/gdrcopy" prefix=/opt/gdrcopy lib lib_install
remove_tools
printf '/opt/gdrcopy/lib\n' >/etc/ld.so.conf.d/000-gpu-profile-gdrcopy.conf
ldconfig
python3 -c 'import ctypes; ctypes.CDLL("libgdrapi.so.2")'
