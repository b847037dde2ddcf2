#!/bin/sh
# The container's entry: mpirun runs as root only when it is told so, and a user of another number has no home.
if [ "$(id -u)" = 0 ]; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
fi
[ -w "${HOME:-/}" ] || export HOME=/tmp
exec "$@"
