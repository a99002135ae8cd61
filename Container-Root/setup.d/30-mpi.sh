#!/usr/bin/env bash
# Install Open MPI, unless EFA's installer brings it, and sshd as MPIJobs want it.
# shellcheck source=../lib/stage/common.sh
source /mnt/stage/common.sh

: "${MPI_SOURCE:?}"

apt_update
# sshd's package asks for systemd's account maker: its small stand-alone form will do.
sysusers=$(apt-cache pkgnames systemd-standalone-sysusers)
# shellcheck disable=SC2086  # one word or none
apt_install openssh-client openssh-server ${sysusers}
if [[ ${MPI_SOURCE} == distribution ]]; then
    apt_install openmpi-bin
else
    log 'Open MPI comes with the EFA installer'
fi

# Host keys are made when a container starts: a key in an image is everybody's key.
rm -f /etc/ssh/ssh_host_*

# The operator mounts its keys with the volume's modes, hence StrictModes no.
cat >/etc/ssh/sshd_config.d/gpu-profile.conf <<'END'
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
END
cat >/etc/ssh/ssh_config.d/gpu-profile.conf <<'END'
StrictHostKeyChecking no
UserKnownHostsFile /dev/null
LogLevel ERROR
Match localuser mpiuser
    Port 2222
END

# Without root: MPIJob's sshAuthMountPath is /home/mpiuser/.ssh, and its worker's command
# `sshd -De -f /home/mpiuser/.sshd_config`.
useradd --create-home --uid 1000 --user-group --shell /bin/bash mpiuser 2>/dev/null ||
    useradd --create-home --user-group --shell /bin/bash mpiuser
cat >/home/mpiuser/.sshd_config <<'END'
Include /etc/ssh/sshd_config.d/gpu-profile-env.conf
Port 2222
PidFile /home/mpiuser/sshd.pid
HostKey /home/mpiuser/.ssh/id_rsa
StrictModes no
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
END
install -d -o mpiuser -g mpiuser -m 700 /home/mpiuser/.ssh
chown -R mpiuser:mpiuser /home/mpiuser
