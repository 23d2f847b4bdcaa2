#!/usr/bin/env bash
# Times compilation (whole processes, code generation included) and the start of a compiled program.
#   bench/compile_time.sh [BUILD_DIRECTORY]
set -euo pipefail
cd "$(dirname "$0")/.."
dtc=$(realpath "${1:-build}")/bin/dtc
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

seconds() { # of "$@", median of three
  for _ in 1 2 3; do
    local begin=$EPOCHREALTIME
    "$@" >/dev/null
    echo "$EPOCHREALTIME $begin" | awk '{ printf "%.2f\n", $1 - $2 }'
  done | sort -n | sed -n 2p
}

echo "| compilation | seconds |"
echo "|---|---|"
echo "| GPT-2 124M, dp=2,tp=2 | $(seconds "$dtc" compile examples/gpt2 --mesh dp=2,tp=2 --set global_batch=8 \
  --set sequence_length=256 -o "$work/gpt2") |"
for mesh in dp=512,tp=8 dp=1,tp=8; do
  batch=${mesh#dp=}; batch=${batch%%,*}
  echo "| GPT-3 175B, 96 layers, $mesh | $(seconds "$dtc" compile examples/gpt3-175b --mesh "$mesh" \
    --set global_batch="$batch" --set sequence_length=2048 -o "$work/gpt3") |"
done
for layers in 12 96 400 1000; do
  mkdir "$work/$layers"
  sed -E "s/(\"n_layer\": *)[0-9]+/\1$layers/; s/(\"n_embd\": *)[0-9]+/\164/" examples/gpt-small/config.json \
    >"$work/$layers/config.json"
  echo "| $layers layers of width 64, dp=2,tp=2 | $(seconds "$dtc" compile "$work/$layers" --mesh dp=2,tp=2 \
    --set global_batch=8 -o "$work/layers") |"
done
