#!/usr/bin/env bash
# container_smoke [RANKS]: whether this container can train. Prints versions and devices, says if /dev/shm is small, trains the
# handwritten digits on 2 ranks and compares them with one. The last line is "container_smoke: ok", else the exit code isn't 0.
set -euo pipefail
examples=${EXAMPLES:-/usr/share/tessera/examples}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
trainer --version
trainer devices
shm=$(df -m --output=avail /dev/shm | tail -n 1)
[ "$shm" -ge 512 ] || echo "container_smoke: /dev/shm has $((shm)) MB, too little for most models: docker run --shm-size=1g" >&2
mpirun -np "${1:-2}" trainer "$examples/digits_mlp.yaml" --set fit.epochs=2
mpirun -np "${1:-2}" trainer verify "$examples/digits_mlp.yaml" --steps 2
echo "container_smoke: ok"
