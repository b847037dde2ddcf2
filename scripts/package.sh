#!/usr/bin/env bash
# scripts/package.sh [FOLDER]: installs what is missing, builds the trainer, packs it: tessera_VERSION_amd64.deb and
# tessera-VERSION-linux-x86_64.tar.gz in FOLDER (dist). Then, on Debian and Ubuntu: apt install ./dist/tessera_*.deb
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(realpath -m "${1:-dist}")
scripts/build.sh release installed
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cpack --config build/release/CPackConfig.cmake -B "$folder" >"$log" 2>&1 || { cat "$log"; exit 1; }
rm -rf "$folder/_CPack_Packages"
ls -1 "$folder"/tessera[-_]*
