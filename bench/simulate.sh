#!/usr/bin/env bash
# The cost of a simulation, and that of recording: the rows of simulate.md.
#
#   bench/simulate.sh [BUILD_DIRECTORY]
source "$(dirname "$0")/prepare.sh" simulate "$@"
dtc=$build/bin/dtc

seconds() { # of a command, the median of five
  for _ in 1 2 3 4 5; do
    local begin=$EPOCHREALTIME
    "$@" >/dev/null
    local end=$EPOCHREALTIME
    echo "$(((${end/./} - ${begin/./})))"
  done | sort -n | sed -n 3p | sed 's/$/e-6/'
}

gpt3=(examples/gpt3-175b --target cuda:sm_80 --mesh "dp=64,tp=8,pp=8" --set accumulation=16 --set global_batch=1024 --set sequence_length=2048)
compiling=$(seconds "$dtc" compile "${gpt3[@]}" -o "$work/gpt3")
simulating=$(seconds "$dtc" simulate "$work/gpt3" --cluster examples/clusters/dgx_a100_superpod.textproto)
python3 -c "print(f'GPT-3 175B, dp=64,tp=8,pp=8: compile {$compiling:.2f} s, simulate {$simulating:.3f} s, ratio {$simulating / $compiling:.3f}')"

"$dtc" compile examples/gpt2 --mesh dp=2,tp=2 -o "$work/gpt2" >/dev/null
echo "GPT-2 124M, dp=2,tp=2, from the flat copy: $("$build/bench/simulate" "$work/gpt2" examples/clusters/two_cores.textproto)"

# The cost of recording for a report: steps with a trace of all of them next to steps without.
"$dtc" compile examples/gpt-small --mesh dp=2 --set checkpoint_every=0 --set eval_every=0 -o "$work/small" >/dev/null
python3 - "$work" <<'TOKENS'
import pathlib, sys
pathlib.Path(sys.argv[1], "tokens.bin").write_bytes(b"".join(int(i * i % 251).to_bytes(2, "little") for i in range(100000)))
TOKENS
step() { # median seconds of steps 11 to 60
  rm -rf "$work/out"
  "$dtc" run "$work/small" --data "$work/tokens.bin" --data-format nanogpt --out "$work/out" --steps 60 "$@" >/dev/null
  python3 -c "
import json, statistics
lines = [json.loads(line) for line in open('$work/out/metrics.jsonl')]
print(statistics.median([line['time_metrics/end_to_end(s)'] for line in lines if 'time_metrics/end_to_end(s)' in line][10:]))"
}
ratios=""
for _ in {1..10}; do # in turn, so that neither is always the second one
  traced=$(step --trace 11-60) plain=$(step)
  ratios+="$traced/$plain,"
  plain=$(step) traced=$(step --trace 11-60)
  ratios+="$traced/$plain,"
done
python3 -c "
import statistics
ratios = sorted([$ratios])
print(f'recording: steps with a trace take {statistics.median(ratios):.4f} times as long (quarters {ratios[5]:.4f} and {ratios[14]:.4f}; 20 pairs)')"
