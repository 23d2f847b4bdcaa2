#!/usr/bin/env python3
"""How fast PyTorch makes and checks the timetable of interleaved 1F1B: the peer of BUILD/bench/timetables.

    timetables_peer.py [--ranks 64] [--stages-per-rank 4] [--micro-batches 512] [--rounds 3]

ScheduleInterleaved1F1B makes the order of all ranks, as each rank does when it constructs one. `_validate_schedule`
checks that each stage has all passes, forward before backward. It does not find ranks that wait for each other;
`_add_send_recv`, which puts sends and receives into the order, does. Prints one JSON line: the number of entries, and
the median seconds of each of the three. These functions are private: other versions of PyTorch may not have them.
"""

import argparse
import json
import statistics
import time

import torch
from torch.distributed.pipelining import schedules


def make(args):
    """The order alone, without a process group, which only stages need."""
    schedule = object.__new__(schedules.ScheduleInterleaved1F1B)
    schedule.n_local_stages, schedule.pp_group_size = args.stages_per_rank, args.ranks
    schedule._n_microbatches = args.micro_batches
    schedule.microbatches_per_round = args.micro_batches // max(1, args.micro_batches // args.ranks)
    return {rank: schedule._calculate_single_rank_operations(rank) for rank in range(args.ranks)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--stages-per-rank", type=int, default=4)
    parser.add_argument("--micro-batches", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    stages = args.ranks * args.stages_per_rank
    seconds = {"make_s": [], "validate_s": [], "add_transfers_s": []}
    for _ in range(args.rounds):
        begin = time.perf_counter()
        order = make(args)
        made = time.perf_counter()
        schedules._validate_schedule(order, args.ranks, stages, args.micro_batches)
        validated = time.perf_counter()
        passes = {rank: [action for action in actions if action is not None] for rank, actions in order.items()}
        entries = sum(map(len, passes.values()))
        copied = time.perf_counter()
        schedules._add_send_recv(passes, stage_to_rank=lambda stage: stage % args.ranks, num_stages=stages)
        added = time.perf_counter()
        for name, value in zip(seconds, (made - begin, validated - made, added - copied)):
            seconds[name].append(value)
    print(json.dumps({"torch": torch.__version__, "entries": entries,
                      **{name: statistics.median(values) for name, values in seconds.items()}}))


if __name__ == "__main__":
    main()
