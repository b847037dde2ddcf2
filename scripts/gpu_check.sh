#!/usr/bin/env bash
# scripts/gpu_check.sh [STAGE...]: what a machine with GPUs shows, in at most 9 minutes on one. Stages, in this order; default: all.
#   versions   the card, driver and libraries; the CPU's own step, so that a slow host is seen
#   suite      every kernel's forward and backward against the double-precision oracle, on the GPU
#   reference  Keras's cases and runs on the GPU
#   verify     the examples on the GPU against one device
#   ceilings   copy bandwidth and matmul rate of this card
#   step       time of a step of the example models, with the profile by instruction
#   memory     free memory against the plan's, and a thousand steps without growth
#   several    with more than one GPU: collectives over NCCL and the examples on all of them
# Each stage has a time limit of its own. Uses build/release, built here or brought along (scripts/gpu_check.sh pack DIR copies what is
# needed). Writes docs/gpu_results/<card>.md and .json, or to the folder that GPU_RESULTS names.
set -uo pipefail
cd "$(dirname "$0")/.."
bin=${TESSERA_BIN:-build/release/bin}
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

pack() {  # FOLDER: the programs, what they load beside them, and the examples
  local to=${1:?a folder}
  mkdir -p "$to"
  cp -r --parents "$bin/trainer" "$bin/device_test" "$bin/reference_test" "$bin/libtessera_cuda.so" "$bin/libtessera_nccl.so" \
    scripts/gpu_check.sh configs tests/reference_data "$to"
  strip --strip-unneeded "$to/$bin"/* 2>/dev/null
  # Libraries of the distribution that the other machine may lack.
  mkdir -p "$to/$bin/libs"
  ldd "$bin/trainer" "$bin/device_test" | awk '/=> \// {print $3}' | sort -u |
    grep -E 'dnnl|openblas|yaml-cpp|re2|fmt|spdlog|hwy|absl|gfortran|quadmath|OpenCL|libmpi|open-pal|open-rte|pmix|hwloc|event|libucx|libucp|libuct|libucs|libucm' |
    xargs -r cp -L -t "$to/$bin/libs"
  du -sh "$to"
}
if [ "${1:-}" = pack ]; then
  pack "${2:-}"
  exit
fi
[ -d "$bin/libs" ] && export LD_LIBRARY_PATH=$PWD/$bin/libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

[ $# -gt 0 ] || set -- versions suite reference verify ceilings step memory several
gpus=$("$bin/trainer" devices --type gpu --json 2>/dev/null | grep -c '"bus_id"')
if [ "$gpus" = 0 ]; then
  "$bin/trainer" devices --type gpu
  echo "no GPU here: nothing is measured"
  exit 2
fi
card=$("$bin/trainer" devices --type gpu --json | sed -n 's/.*"model": "\(.*\)",/\1/p' | head -n 1 | tr ' /' '__')
results=${GPU_RESULTS:-docs/gpu_results}
mkdir -p "$results"
report=$results/$card.md
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
run=(--set "output_dir=$work" --set device=cuda)

stage_versions() { "$bin/trainer" devices; }
stage_suite() { TESSERA_TEST_DEVICE=cuda "$bin/device_test" --gtest_filter=-Cpu*:Allocation*:MatmulTuning* --gtest_brief=1; }
stage_reference() { TESSERA_TEST_DEVICE=cuda "$bin/reference_test" | tail -n 4; }
stage_verify() {
  local config
  for config in digits_mlp mlp_fsdp mlp_megatron; do
    "$bin/trainer" verify "configs/$config.yaml" "${run[@]}" | tail -n 3 || return 1
  done
}
stage_ceilings() { "$bin/trainer" devices --measure --type gpu; }
stage_step() {
  local config
  for config in digits_mlp mlp_megatron; do
    echo "-- $config"
    "$bin/trainer" train "configs/$config.yaml" "${run[@]}" --set fit.epochs=3 --profile 2>&1 || return 1
  done
  echo "-- a wide model: 8192 x (4096 -> 16384 -> 4096)"
  cat >"$work/wide.yaml" <<'YAML'
version: 1
name: wide
model:
  inputs: {x: {shape: [4096]}}
  layers:
    - Dense: {name: dense_1, units: 16384, activation: gelu}
    - Dense: {name: dense_2, units: 4096}
compile: {optimizer: adam, loss: mse}
data: {train: {random: {samples: 81920}}}
fit: {epochs: 2, batch_size: 8192}
YAML
  "$bin/trainer" train "$work/wide.yaml" "${run[@]}" --profile 2>&1
}
stage_memory() {
  "$bin/trainer" train configs/digits_mlp.yaml "${run[@]}" --set fit.epochs=45 2>&1 | tail -n 2 || return 1
  grep '"event":"end"' "$work/digits_mlp/metrics.jsonl"
}
stage_several() {
  [ "$gpus" -gt 1 ] || { echo "one GPU: nothing to do"; return 0; }
  local config
  for config in digits_mlp mlp_fsdp mlp_megatron; do
    mpirun -np "$gpus" "$bin/trainer" verify "configs/$config.yaml" "${run[@]}" | tail -n 3 || return 1
    mpirun -np "$gpus" "$bin/trainer" train "configs/$config.yaml" "${run[@]}" --set fit.epochs=2 2>&1 | tail -n 3 || return 1
  done
}
limit() { case $1 in suite | reference | step) echo 120 ;; *) echo 60 ;; esac; }

export -f stage_versions stage_suite stage_reference stage_verify stage_ceilings stage_step stage_memory stage_several
export bin work gpus
passed=0 failed=()
{
  echo "# $card"
  echo
  echo "Written by \`scripts/gpu_check.sh\` on $(date -u +%Y-%m-%d)."
} >"$report"
json=
for stage in "$@"; do
  start=$SECONDS
  out=$(timeout "$(limit "$stage")" bash -c "run=($(printf '%q ' "${run[@]}")); set -o pipefail; stage_$stage" 2>&1)
  code=$?
  [ $code = 0 ] && passed=$((passed + 1)) || failed+=("$stage")
  seconds=$((SECONDS - start))
  {
    echo
    echo "## $stage ($([ $code = 0 ] && echo passed || echo "FAILED, exit $code") in $seconds s)"
    echo '```'
    printf '%s\n' "$out" | tail -n 80
    echo '```'
  } | tee -a "$report"
  json+="${json:+, }{\"stage\": \"$stage\", \"exit\": $code, \"seconds\": $seconds}"
done
echo "{\"card\": \"$card\", \"gpus\": $gpus, \"stages\": [$json]}" >"$results/$card.json"
echo "passed $passed, failed ${#failed[@]}: $report"
[ ${#failed[@]} = 0 ]
