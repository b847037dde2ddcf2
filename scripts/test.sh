#!/usr/bin/env bash
# scripts/test.sh [STAGE...]: installs what is missing, builds, tests. Stages, in this order; default: all of them.
#   format     clang-format on all sources
#   release    build, then all tests but those of cluster and package
#   cluster    jobs under a Slurm that the test starts, and on two hosts that are namespaces; needs the build of release
#   package    installation, .deb and tarball, and a container with them (as root): labels install and container
#   emulated   the CUDA backend and NCCL on emulated GPUs: kernels, Keras's cases, meshes, failures
#   asan       mesh, config, checkpoint, data and runtime tests and 60 cases of mesh equality under ASan, LSan and UBSan
#   tsan       the thread communicator and the executor with its communication thread under TSan
#   fuzz       YAML, .npy and safetensors readers, FUZZ_SECONDS (60) each
#   tidy       clang-tidy on the sources that differ from origin/main or, without one, from the commit before
# A stage's output also lies in build/logs. At the end stand the last lines of the stages that failed and, as the last line of
# all, "passed N, failed N".
set -uo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- format release cluster package emulated asan tsan fuzz tidy
export TESSERA_CUDA_ARCHITECTURES=${TESSERA_CUDA_ARCHITECTURES:-90}  # one and its PTX, where the toolkit is
export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export CCACHE_DIR=${CCACHE_DIR:-$HOME/.cache/ccache}
scripts/install_packages.sh packages.txt packages_test.txt || exit 1
jobs=$(nproc)

sources() { git ls-files -- '*.h' '*.cpp'; }

stage_format() { sources | xargs clang-format-14 --dry-run --Werror; }

packaged='^(install|container)$'  # labels of stage package
stage_release() {
  scripts/build.sh release &&
    ctest --test-dir build/release --output-on-failure --no-tests=error -LE '^(cluster|install|container)$' -j "$jobs"
}

stage_cluster() {
  scripts/install_packages.sh packages_cluster.txt || return 1
  if [ ! -x build/release/bin/trainer ]; then
    echo "there is no build/release/bin/trainer: run the stage release first"
    return 1
  fi
  ctest --test-dir build/release --output-on-failure --no-tests=error -L '^cluster$'
}

stage_package() {
  scripts/install_packages.sh packages_container.txt && scripts/build.sh release installed || return 1
  [ "$(id -u)" = 0 ] || echo "NOT RUN: the container's tests, which need root"
  ctest --test-dir build/release --output-on-failure --no-tests=error -L '^(install|container)$'
}

# It needs the toolkit's headers, not a GPU.
stage_emulated() {
  local header targets=(trainer comm_nccl_test cuda_emulator_nccl_test cuda_emulator_test device_test
    kernel_mutations_test launches_test mesh_equality_mpi_test plan_mutations_test reference_test train_test)
  for header in "${CUDA_HOME:-/usr/local/cuda}/include/cublasLt.h" /usr/include/cublasLt.h; do
    [ -f "$header" ] && break
  done
  if [ ! -f "$header" ]; then
    echo "NOT RUN: there are no headers of the CUDA toolkit, cuBLASLt and NCCL here; set CUDA_HOME"
    return 0
  fi
  scripts/build.sh emulated "${targets[@]}" &&
    ctest --test-dir build/emulated --output-on-failure --no-tests=error -L emulated -j "$jobs"
}

stage_asan() {
  local tests=(mesh_test config_test checkpoint_test data_test runtime_test mesh_equality_test)
  scripts/build.sh asan "${tests[@]}" &&
    LSAN_OPTIONS=suppressions=$PWD/scripts/leaks.supp:print_suppressions=0 TESSERA_MESH_CASES=60 \
      ctest --test-dir build/asan --output-on-failure --no-tests=error -R "^($(IFS='|'; echo "${tests[*]}"))\$" -j "$jobs"
}

# One OpenMP thread a rank: TSan does not see how GCC's OpenMP joins its threads.
stage_tsan() {
  scripts/build.sh tsan comm_test runtime_test &&
    OMP_NUM_THREADS=1 TSAN_OPTIONS=halt_on_error=1 \
      ctest --test-dir build/tsan --output-on-failure --no-tests=error -R '^(comm_test|runtime_test)$'
}

stage_fuzz() {
  scripts/build.sh asan fuzz_yaml fuzz_npy fuzz_safetensors || return 1
  local target pids=() failed=0
  for target in fuzz_yaml fuzz_npy fuzz_safetensors; do
    (
      corpus=$(mktemp -d)
      build/asan/bin/$target -max_total_time="${FUZZ_SECONDS:-60}" -timeout=10 -rss_limit_mb=2048 \
        "$corpus" $([ -d tests/fuzz_corpus/$target ] && echo tests/fuzz_corpus/$target) >"build/asan/$target.log" 2>&1 ||
        { tail -n 40 "build/asan/$target.log"; exit 1; }
      tail -n 1 "build/asan/$target.log"
      rm -rf "$corpus"
    ) &
    pids+=($!)
  done
  for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
  return $failed
}

# Its build is one without precompiled headers, so that what a file forgets to include is found too.
stage_tidy() {
  local base changed
  base=$(git merge-base HEAD origin/main 2>/dev/null || true)
  [ -n "$base" ] && [ "$base" != "$(git rev-parse HEAD)" ] || base=$(git rev-parse --verify -q HEAD~1 || true)
  [ -n "$base" ] || return 0
  changed=$(git diff --name-only --diff-filter=AM "$base" -- '*.cpp' | grep -v '/fuzz_' | head -n "${TIDY_FILES:-40}")
  cmake --preset tidy >/dev/null || return 1
  # What this build does not compile (the emulator, a backend that isn't here) has no command to be checked with.
  changed=$(for file in $changed; do ! grep -qF "$PWD/$file\"" build/tidy/compile_commands.json || echo "$file"; done)
  xargs -r -P "$jobs" -n 1 clang-tidy-14 --quiet -p build/tidy <<<"$changed" 2> >(grep -v ' generated\.$')
}

passed=0 failed=()
mkdir -p build/logs
for stage in "$@"; do
  echo "== $stage"
  start=$SECONDS
  if "stage_$stage" 2>&1 | tee "build/logs/$stage.log"; then
    passed=$((passed + 1))
    echo "== $stage passed in $((SECONDS - start)) s"
  else
    failed+=("$stage")
    echo "== $stage FAILED after $((SECONDS - start)) s"
  fi
done
for stage in "${failed[@]}"; do
  echo "== $stage FAILED; the last lines of build/logs/$stage.log:"
  tail -n 40 "build/logs/$stage.log"
done
echo "passed $passed, failed ${#failed[@]}"
[ ${#failed[@]} = 0 ]
