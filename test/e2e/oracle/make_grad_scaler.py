#!/usr/bin/env python3
"""Records what torch.amp.GradScaler does with steps that overflow: the oracle for dtc's dynamic loss scale.

    make_grad_scaler.py FILE      writes FILE (grad_scaler.json, beside this script): for each case the first scale, the
                                  growth interval, which steps overflowed and the scale that each step was run with

Needs torch; tests need only the output.
"""

import json
import random
import sys

import torch


def run(scale, interval, overflows):
    parameter = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=interval)
    scales, applied = [], []
    for overflow in overflows:
        scales.append(scaler.get_scale() if scales else scale)
        optimizer.zero_grad()
        scaler.scale((parameter * 1.0).sum()).backward()
        if overflow:
            parameter.grad.fill_(float("inf"))
        before = parameter.item()
        scaler.step(optimizer)
        scaler.update()
        applied.append(parameter.item() != before)
    assert applied == [not overflow for overflow in overflows]
    return {"scale": scale, "interval": interval, "overflows": overflows, "scales": scales}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    source = random.Random(3)
    cases = [run(2.0**16, 4, [False] * 9), run(2.0**16, 2000, [True] * 5 + [False] * 3)]
    for interval in (1, 2, 3, 5):
        cases.append(run(2.0**16, interval, [source.random() < 0.3 for _ in range(40)]))
    with open(sys.argv[1], "w") as file:
        json.dump({"torch": torch.__version__, "cases": cases}, file)
        file.write("\n")
    print(f"torch {torch.__version__}: {len(cases)} cases")


if __name__ == "__main__":
    main()
