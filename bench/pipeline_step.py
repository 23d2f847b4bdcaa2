#!/usr/bin/env python3
"""Times a training step of untied GPT-2 124M in PyTorch, by one rank or as a pipeline of two: compare_pipeline.py's peer.

    pipeline_step.py [--ranks 1|2] [--cut 9] [--batch 1] [--tokens 64] [--micro-batches 8] [--steps 5]

f32, no dropout, AdamW. Two ranks are processes of this machine with a core each, which run
torch.distributed.pipelining's 1F1B over Gloo: one has the embeddings and the first `cut` layers, the other the rest
with the head. A single rank accumulates as many micro-batches. Prints one JSON line: seconds (median and least over the
steps) and the loss.
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
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

from gpt2_step import LAYERS, POSITIONS, VOCABULARY, WIDTH, Block


class Part(nn.Module):
    """Layers from `first` to before `end`, with the embeddings before the first and the head after the last."""

    def __init__(self, first, end):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH) if first == 0 else None
        self.positions = nn.Embedding(POSITIONS, WIDTH) if first == 0 else None
        self.blocks = nn.ModuleList(Block() for _ in range(first, end))
        self.norm = nn.LayerNorm(WIDTH) if end == LAYERS else None
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False) if end == LAYERS else None
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
    return F.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1))


def one_rank(args, tokens, targets):
    model = Part(0, LAYERS)

    def passes():
        total = 0.0
        for x, y in zip(tokens.chunk(args.micro_batches), targets.chunk(args.micro_batches)):
            loss = loss_of(model(x), y) / args.micro_batches
            loss.backward()
            total += loss.item()
        return total

    return model, passes


def one_stage(args, rank, tokens, targets):
    model = Part(0, args.cut) if rank == 0 else Part(args.cut, LAYERS)
    stage = PipelineStage(model, rank, 2, torch.device("cpu"))
    schedule = Schedule1F1B(stage, args.micro_batches, loss_fn=loss_of)

    def passes():
        if rank == 0:
            schedule.step(tokens)
            return 0.0
        losses = []
        schedule.step(target=targets, losses=losses)
        return sum(loss.item() for loss in losses) / len(losses)

    return model, passes


def work(rank, args):
    os.sched_setaffinity(0, {rank})
    torch.set_num_threads(1)
    torch.manual_seed(0)
    tokens, targets = torch.randint(0, VOCABULARY, (2, args.batch * args.micro_batches, args.tokens))
    if args.ranks == 2:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(args.port), GLOO_SOCKET_IFNAME="lo")
        dist.init_process_group("gloo", rank=rank, world_size=2)
        model, passes = one_stage(args, rank, tokens, targets)
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
    if rank == args.ranks - 1:
        print(json.dumps({"torch": torch.__version__, "ranks": args.ranks, "median_s": round(statistics.median(seconds), 4),
                          "least_s": round(min(seconds), 4), "loss": loss}), flush=True)
    if args.ranks == 2:
        dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, choices=[1, 2], default=2)
    parser.add_argument("--cut", type=int, default=9)
    parser.add_argument("--batch", type=int, default=1, help="samples of a micro-batch")
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--micro-batches", type=int, default=8)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--port", type=int, default=29471)
    args = parser.parse_args()
    if args.ranks == 1:
        work(0, args)
    else:
        processes.spawn(work, (args,), nprocs=2)


if __name__ == "__main__":
    main()
