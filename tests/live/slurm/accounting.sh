#!/usr/bin/env bash
# Slurm's accounting for the Slurm of slurm.sh: a MariaDB and a slurmdbd of our own, on loopback.
#   tests/live/slurm/accounting.sh start DIR    DIR has munge.sock; prints the lines for slurm.conf
#   tests/live/slurm/accounting.sh stop DIR
set -euo pipefail

readonly verb=${1:?usage: accounting.sh start|stop DIR} target=${2:?usage: accounting.sh start|stop DIR}
dir=$(cd "${target}" && pwd -P)
readonly dir
export PATH=${PATH}:/usr/sbin SLURM_CONF=${dir}/slurm.conf
# shellcheck source=servers.sh
source "${0%/*}/servers.sh"

query() { mariadb --no-defaults --socket="${dir}/db.sock" --user=root --execute="$1"; }

start_database() {
    local port=$1 install="mariadb-install-db --no-defaults --user=root"
    # shellcheck disable=SC2086  # words are meant
    ${install} --datadir="${dir}/db" --auth-root-authentication-method=normal --skip-test-db \
        >"${dir}/install-db.out" 2>&1 || die "no database: see ${dir}/install-db.out"
    launch mariadbd mariadbd --no-defaults --user=root --datadir="${dir}/db" \
        --socket="${dir}/db.sock" --bind-address=127.0.0.1 --port="${port}" \
        --pid-file="${dir}/db.pid" --innodb-buffer-pool-size=32M
    await mariadbd query 'SELECT 1'
    query "CREATE DATABASE slurm_acct_db; CREATE USER slurm@'127.0.0.1' IDENTIFIED BY 'slurm';
           GRANT ALL ON slurm_acct_db.* TO slurm@'127.0.0.1';"
}

start_slurmdbd() {
    local database=$1 port=$2
    (
        umask 077
        cat >"${dir}/slurmdbd.conf" <<END
AuthType=auth/munge
AuthInfo=socket=${dir}/munge.sock
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=${port}
SlurmUser=root
LogFile=${dir}/slurmdbd.log
PidFile=${dir}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=${database}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
END
    )
    launch slurmdbd slurmdbd -D
    await slurmdbd python3 -c "import socket; socket.create_connection(('127.0.0.1', ${port}))"
    cat <<END
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=${port}
AccountingStoragePass=${dir}/munge.sock
END
}

start() {
    local program ports
    for program in mariadbd mariadb mariadb-install-db slurmdbd; do
        command -v "${program}" >/dev/null ||
            die "no ${program}: install slurmdbd, mariadb-server-core and mariadb-client-core"
    done
    read -r -a ports < <(free_ports 2)
    start_database "${ports[0]}"
    start_slurmdbd "${ports[@]}"
}

stop() { end slurmdbd mariadbd; }

obey "${verb}"
