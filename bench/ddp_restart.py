#!/usr/bin/env python3
"""GPT-2 124M under DistributedDataParallel, started by torchrun, which continues from its last checkpoint: the peer of
`dtc run --max-restarts`.

    torchrun ... ddp_restart.py FOLDER

Rank 0 saves model and optimizer every second step; each rank appends a line to FOLDER/steps.RANK after each step: its
process, the step and the time. Batches are 4 rows of 64 tokens per rank; f32, one thread.
"""

import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import gpt2_step


def main():
    folder = pathlib.Path(sys.argv[1])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    model = gpt2_step.Gpt2()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1, fused=True)
    first, latest = 0, folder / "latest.pt"
    if latest.exists():
        saved = torch.load(latest, mmap=True)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["step"]
    parallel = DistributedDataParallel(model, gradient_as_bucket_view=True)
    tokens = torch.randint(gpt2_step.VOCABULARY, (4, 65))
    for step in range(first, 1000):
        parallel(tokens[:, :-1], tokens[:, 1:].contiguous()).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        with open(folder / f"steps.{dist.get_rank()}", "a") as file:
            file.write(f"{os.getpid()} {step + 1} {time.time()}\n")
        if step % 2 == 1 and dist.get_rank() == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1},
                       folder / "next.pt")
            os.replace(folder / "next.pt", latest)


if __name__ == "__main__":
    main()
