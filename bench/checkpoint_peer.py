#!/usr/bin/env python3
"""Saves the state of a checkpoint by torch.save, as a training script would: the peer of compare_checkpoint.py.

    checkpoint_peer.py CHECKPOINT FILE

Reads the tensors of CHECKPOINT's safetensors, saves them as {"model": ..., "optimizer": ...} and prints the seconds
that torch.save took, the seconds with fsync, and the bytes.
"""

import json
import os
import pathlib
import sys
import time

import torch
from safetensors.torch import load_file

torch.set_num_threads(1)
checkpoint, path = pathlib.Path(sys.argv[1]), sys.argv[2]
state = {stem: {name: tensor for file in sorted(checkpoint.glob(f"{stem}*.safetensors"))
                for name, tensor in load_file(file).items()} for stem in ("model", "optimizer")}
for tensors in state.values():  # in memory, not mapped
    for name in tensors:
        tensors[name] = tensors[name].clone()
begin = time.perf_counter()
torch.save(state, path)
saved = time.perf_counter()
with open(path, "rb") as file:
    os.fsync(file.fileno())
synced = time.perf_counter()
print(json.dumps({"save_s": saved - begin, "synced_s": synced - begin, "bytes": os.path.getsize(path)}))
