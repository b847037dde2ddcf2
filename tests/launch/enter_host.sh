#!/bin/sh
# enter_host.sh HOST COMMAND...: mpirun's rsh to the hosts of hosts_test.py; TESSERA_HOSTS/HOST holds the id of a process
# there.
pid=$(cat "$TESSERA_HOSTS/$1") || exit 1
shift
exec nsenter --target "$pid" --net --uts --mount sh -c "$*"
