#!/usr/bin/env bash
# The products of a GPT-2 124M step by dtc_gemm and, where they are installed (Debian: libdnnl-dev, libopenblas-dev),
# by oneDNN and OpenBLAS: alternately, on one core, summaries only.
#
#   bench/gemm_floor.sh [BUILD_DIRECTORY] [ROUNDS]
set -euo pipefail
build=${1:-build} rounds=${2:-3}
cmake "$build" >/dev/null
peers=(gemm_floor)
for peer in gemm_floor_onednn gemm_floor_openblas; do
  if ninja -C "$build" -t query "$peer" >/dev/null 2>&1; then
    peers+=("$peer")
  fi
done
ninja -C "$build" "${peers[@]}" >/dev/null
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
# OpenBLAS 0.3.21 does not know newer processors and would use kernels for older ones.
if grep -qw avx512f /proc/cpuinfo; then
  export OPENBLAS_CORETYPE=SkylakeX
fi
for ((round = 1; round <= rounds; ++round)); do
  for peer in "${peers[@]}"; do
    taskset -c 0 "$build/bench/$peer" | sed -n "s/^\([0-9]* rows:\)/$peer \1/p"
  done
done
