#!/usr/bin/env python3
"""Times a training step of an untied GPT-2 in PyTorch, by one rank or as a pipeline of two: the peer of
compare_pipeline.py and compare_stages.py.

    pipeline_step.py [--ranks 1|2] [--timetable 1f1b|interleaved|zbv] [--cut 9,3] [--width 768] [--heads 12]
                     [--vocabulary 50257] [--positions 1024] [--batch 1] [--tokens 64] [--micro-batches 8] [--steps 5]

f32, no dropout, AdamW; by default GPT-2 124M. Two ranks are processes of this machine with a core each, which run a
timetable of torch.distributed.pipelining over Gloo: Schedule1F1B with one stage a rank, ScheduleInterleaved1F1B or
ScheduleZBVZeroBubble with two. `cut` has the layers of each stage; the first has the embeddings, too, the last the
head. A single rank accumulates as many micro-batches. Prints one JSON line: seconds (median and least over the steps)
and the loss.
"""

import argparse
import json
import os
import statistics
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
import torch.nn.functional as F
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleInterleaved1F1B, ScheduleZBVZeroBubble

from gpt2_step import HEADS, POSITIONS, VOCABULARY, WIDTH, Block

STAGES = {  # of each rank; stages of zbv are placed in a V, the others in a loop
    "1f1b": [[0], [1]],
    "interleaved": [[0, 2], [1, 3]],
    "zbv": [[0, 3], [1, 2]],
}


class Part(nn.Module):
    """`layers` layers, with the embeddings before the first and the head after the last."""

    def __init__(self, args, layers, is_first, is_last):
        super().__init__()
        self.tokens = nn.Embedding(args.vocabulary, args.width) if is_first else None
        self.positions = nn.Embedding(args.positions, args.width) if is_first else None
        self.blocks = nn.ModuleList(Block(args.width, args.heads) for _ in range(layers))
        self.norm = nn.LayerNorm(args.width) if is_last else None
        self.head = nn.Linear(args.width, args.vocabulary, bias=False) if is_last else None
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, x):
        if self.tokens:
            x = self.tokens(x) + self.positions.weight[: x.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)) if self.head else x


def loss_of(logits, targets):
    return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


def one_rank(args, tokens, targets):
    model = Part(args, sum(args.cut), True, True)

    def passes():
        total = 0.0
        for x, y in zip(tokens.chunk(args.micro_batches), targets.chunk(args.micro_batches)):
            loss = loss_of(model(x), y) / args.micro_batches
            loss.backward()
            total += loss.item()
        return total

    return model, passes


def schedule_of(args, stages):
    if args.timetable == "1f1b":
        return Schedule1F1B(stages[0], args.micro_batches, loss_fn=loss_of)
    kind = {"interleaved": ScheduleInterleaved1F1B, "zbv": ScheduleZBVZeroBubble}[args.timetable]
    return kind(stages, args.micro_batches, loss_fn=loss_of)


def stages_of_rank(args, rank, tokens, targets):
    count, numbers = len(args.cut), STAGES[args.timetable][rank]
    model = nn.ModuleList(Part(args, args.cut[number], number == 0, number == count - 1) for number in numbers)
    stages = [PipelineStage(part, number, count, torch.device("cpu")) for part, number in zip(model, numbers)]
    schedule = schedule_of(args, stages)
    inputs = [tokens] if 0 in numbers else []

    def passes():
        if count - 1 not in numbers:
            schedule.step(*inputs)
            return 0.0
        losses = []
        schedule.step(*inputs, target=targets, losses=losses)
        return sum(loss.item() for loss in losses) / len(losses)

    return model, passes


def work(rank, args):
    os.sched_setaffinity(0, {rank})
    torch.set_num_threads(1)
    torch.manual_seed(0)
    tokens, targets = torch.randint(0, args.vocabulary, (2, args.batch * args.micro_batches, args.tokens))
    has_loss = True
    if args.ranks == 2:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(args.port), GLOO_SOCKET_IFNAME="lo")
        dist.init_process_group("gloo", rank=rank, world_size=2)
        model, passes = stages_of_rank(args, rank, tokens, targets)
        has_loss = len(args.cut) - 1 in STAGES[args.timetable][rank]
    else:
        model, passes = one_rank(args, tokens, targets)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, fused=True)
    seconds, loss = [], 0.0
    for step in range(args.steps + 2):
        start = time.perf_counter()
        loss = passes()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step >= 2:
            seconds.append(time.perf_counter() - start)
    if has_loss:
        print(json.dumps({"torch": torch.__version__, "ranks": args.ranks, "median_s": round(statistics.median(seconds), 4),
                          "least_s": round(min(seconds), 4), "loss": loss}), flush=True)
    if args.ranks == 2:
        dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, choices=[1, 2], default=2)
    parser.add_argument("--timetable", choices=STAGES, default="1f1b")
    parser.add_argument("--cut", type=lambda text: [int(layers) for layers in text.split(",")], default=[9, 3])
    parser.add_argument("--width", type=int, default=WIDTH)
    parser.add_argument("--heads", type=int, default=HEADS)
    parser.add_argument("--vocabulary", type=int, default=VOCABULARY)
    parser.add_argument("--positions", type=int, default=POSITIONS)
    parser.add_argument("--batch", type=int, default=1, help="samples of a micro-batch")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--port", type=int, default=29471)
    args = parser.parse_args()
    if args.ranks == 1:
        work(0, args)
        return
    stages = sum(map(len, STAGES[args.timetable]))
    if len(args.cut) != stages:
        parser.error(f"--cut has {len(args.cut)} stages; {args.timetable} needs {stages}")
    processes.spawn(work, (args,), nprocs=2)


if __name__ == "__main__":
    main()
