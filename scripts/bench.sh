#!/usr/bin/env bash
# scripts/bench.sh [ROUNDS]: ours and, where they are installed, the peers, in turns; the best of ROUNDS (3) and the ratio. Peers are taken
# from the Python of TESSERA_PEERS (default: ~/peers, made by: python3 -m venv ~/peers && ~/peers/bin/pip install keras jax torch).
# Run it with nothing else on the machine: only ratios of one sitting mean something.
set -euo pipefail
cd "$(dirname "$0")/.."
rounds=${1:-3}
peers=${TESSERA_PEERS:-$HOME/peers}
python=$peers/bin/python
scripts/build.sh release trainer >&2
for bench in matmul_bench allreduce_bench; do
  cmake --build build/release --target $bench >/dev/null 2>&1 || echo "without $bench (libbenchmark-dev is not installed)" >&2
done
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
has() { [ -x "$python" ] && KERAS_BACKEND=jax "$python" -c "import $1" 2>/dev/null; }

# The peers' arrays lie in memory; ours are read from files of the same size, which the system keeps there.
data=()
if has numpy; then
  "$python" - "$out" <<'PY'
import sys
import numpy as np
rng = np.random.default_rng(0)
for name, width in (("x", 1024), ("y", 10)):
    np.save(f"{sys.argv[1]}/{name}.npy", rng.standard_normal((10240, width), dtype=np.float32))
PY
  data=(--set "data.train={npy: {x: $out/x.npy, y: $out/y.npy}}")
fi

# Milliseconds a step: the best epoch's mean, the first epoch left out.
ours() {
  # Not bound: mpirun gives a single rank one core by default.
  mpirun --oversubscribe --bind-to none -np "$1" build/release/bin/trainer scripts/peers/mlp.yaml "${data[@]}" \
    --set output_dir="$out" >/dev/null 2>&1
  python3 - "$out/bench_mlp/metrics.jsonl" <<'PY'
import collections, json, sys
times = collections.defaultdict(list)
for line in open(sys.argv[1]):
    event = json.loads(line)
    if event["event"] == "step" and event["epoch"] > 0:
        times[event["epoch"]].append(event["step_ms"])
print(f"{min(sum(t) / len(t) for t in times.values()):.3f}")
PY
}
keras_single() { "$python" scripts/peers/keras_mlp.py single 1 2>/dev/null; }
keras_dp() { "$python" scripts/peers/keras_mlp.py dp 2 2>/dev/null; }
torch_single() { "$python" scripts/peers/torch_mlp.py 2>/dev/null; }
torch_ddp() { OMP_NUM_THREADS=1 "$peers/bin/torchrun" --nproc-per-node 2 scripts/peers/torch_mlp.py 2>/dev/null; }
least() { sort -g | head -n 1; }

# compare NAME OURS_RANKS PEER_NAME PEER_FUNCTION
compare() {
  local mine=() theirs=() i
  for ((i = 0; i < rounds; i++)); do
    mine+=("$(ours "$2")")
    theirs+=("$($4)")
  done
  local a b
  a=$(printf '%s\n' "${mine[@]}" | least)
  b=$(printf '%s\n' "${theirs[@]}" | least)
  printf '%-22s %10s ms  %-26s %10s ms  ratio %s\n' "$1" "$a" "$3" "$b" "$(python3 -c "print(f'{$a / $b:.2f}')")"
}

echo "mlp 1024-4096-10, batch 256, Adam, mse: milliseconds a step"
if has keras && has jax; then
  compare "1 rank, all cores" 1 "Keras/JAX" keras_single
  compare "2 ranks DataParallel" 2 "Keras DataParallel, 2 devices" keras_dp
fi
if has torch; then
  compare "1 rank, all cores" 1 "PyTorch eager" torch_single
  compare "2 ranks DataParallel" 2 "PyTorch DDP (gloo)" torch_ddp
fi
has keras || has torch || printf 'ours alone: 1 rank %s ms, 2 ranks %s ms\n' "$(ours 1)" "$(ours 2)"

echo
echo "start to the end of the first step, digits on 2 ranks"
start=$(date +%s%N)
mpirun --oversubscribe -np 2 build/release/bin/trainer configs/digits_mlp.yaml --set fit.epochs=1 --set fit.steps_per_epoch=1 \
  --set output_dir="$out" >/dev/null 2>&1
echo "$((($(date +%s%N) - start) / 1000000)) ms, the end of the process included"

if [ -x build/release/bin/allreduce_bench ]; then
  echo
  echo "all-reduce of 64 MiB, 2 ranks"
  mpirun --oversubscribe -np 2 build/release/bin/allreduce_bench
fi
if [ -x build/release/bin/matmul_bench ]; then
  echo
  echo "matmul: ours against oneDNN (both ways) and OpenBLAS"
  build/release/bin/matmul_bench
fi
