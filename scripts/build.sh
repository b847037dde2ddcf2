#!/usr/bin/env bash
# scripts/build.sh [PRESET] [TARGET...]: installs what is missing, configures, builds. release leaves
# build/release/bin/trainer. Presets: release, debug, emulated (GPUs emulated on the CPU: tests/cuda_emulator), asan,
# tsan. With the CUDA toolkit and NCCL here, release has the CUDA backend too, for TESSERA_CUDA_ARCHITECTURES="80;90".
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/install_packages.sh
preset=${1:-release}
[ $# -eq 0 ] || shift
targets=()
[ $# -eq 0 ] || targets=(--target "$@")
cmake --preset "$preset" >build-"$preset".log 2>&1 || { cat build-"$preset".log; exit 1; }
rm -f build-"$preset".log
cmake --build --preset "$preset" "${targets[@]}" -- -j "${TESSERA_JOBS:-$(nproc)}"
