#!/bin/bash
# torchrun.sh OUT PROGRAM ARGUMENTS...: torchrun starts the ranks; --no-python, because a program is not a Python script.
#   RANKS=4 torchrun.sh out ./gpt --data corpus.bin
# On several hosts, run on each with its own NODE, and with DTC_TOKEN or DTC_TOKEN_FILE in the environment:
#   RANKS=4 NODES=2 NODE=0 MASTER=node1 torchrun.sh out ./gpt --data corpus.bin
set -euo pipefail
: "${RANKS:?set RANKS to the number of ranks on each host}"

exec "$(dirname "$0")/go-on" "$1" torchrun --no-python --nnodes="${NODES:-1}" --node-rank="${NODE:-0}" \
  --nproc-per-node="$RANKS" --master-addr="${MASTER:-127.0.0.1}" --master-port="${PORT:-29500}" --max-restarts="${RESTARTS:-0}" \
  "${@:2}"
