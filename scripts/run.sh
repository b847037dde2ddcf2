#!/usr/bin/env bash
# scripts/run.sh [CONFIG [ARGUMENT...]]: installs what is missing, builds, trains. Without arguments: the handwritten digits on two
# ranks. RANKS=4 scripts/run.sh my.yaml --set fit.epochs=1
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
"$root/scripts/build.sh" release trainer
[ $# -gt 0 ] || set -- "$root/configs/digits_mlp.yaml"
# As root mpirun wants to be told so; more ranks than cores are allowed; a rank may use its share of the cores, not just one.
flags=(--oversubscribe --bind-to none)
[ "$(id -u)" != 0 ] || flags+=(--allow-run-as-root)
exec mpirun "${flags[@]}" -np "${RANKS:-2}" "$root/build/release/bin/trainer" "$@"
