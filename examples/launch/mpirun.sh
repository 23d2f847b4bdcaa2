#!/bin/bash
# mpirun.sh OUT PROGRAM ARGUMENTS...: Open MPI starts the ranks.
#   RANKS=4 mpirun.sh out ./gpt --data corpus.bin
# On several hosts, with DTC_TOKEN or DTC_TOKEN_FILE in the environment:
#   RANKS=8 HOSTS=node1:4,node2:4 mpirun.sh out ./gpt --data corpus.bin
set -euo pipefail
: "${RANKS:?set RANKS to the number of ranks in all}"

hosts=()
if [[ ${HOSTS:-} ]]; then
  export MASTER_ADDR=${HOSTS%%[:,]*}
  hosts=(--host "$HOSTS" -x MASTER_ADDR -x DTC_TOKEN -x DTC_TOKEN_FILE)
fi
# Ranks have threads of their own, so they must not be bound to one core each.
exec "$(dirname "$0")/go-on" "$1" mpirun --bind-to none -n "$RANKS" "${hosts[@]}" "${@:2}"
