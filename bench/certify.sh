#!/usr/bin/env bash
# The certificate against deadlock of GPT-3 175B on more and more ranks: how long it takes, the median of nine.
#
#   bench/certify.sh [BUILD_DIRECTORY]
source "$(dirname "$0")/prepare.sh" certify "$@"
for layout in "1 16" "64 16" "1536 16" "1536 64" "16384 16"; do
  read -r dp accumulation <<<"$layout"
  "$build/bin/dtc" compile examples/gpt3-175b --mesh "dp=$dp,tp=8,pp=8" --set "accumulation=$accumulation" \
    --set "global_batch=$((dp * accumulation))" --set sequence_length=2048 -o "$work/gpt3" >/dev/null
  echo "dp=$dp,tp=8,pp=8, $accumulation micro-batches: $("$build/bench/certify" "$work/gpt3" 9)"
done
