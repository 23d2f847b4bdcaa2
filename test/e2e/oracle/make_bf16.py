#!/usr/bin/env python3
"""Records how far PyTorch's bf16 autocast on CPU strays from f64: the oracle for dtc's `precision.compute = "bf16"`.

    make_bf16.py DIRECTORY      writes DIRECTORY/{gpt2,llama}/bf16.safetensors next to the models of make_oracle.py

Needs torch, transformers and safetensors; tests need only the output:
  tokens, targets [BATCHES, 2, 16] i32 (-100: ignored)
  loss_sum [BATCHES] f64, and for each tensor NAME of model.safetensors gradient.NAME [BATCHES, ...] f32, the gradients
                                   of each batch's loss_sum, computed in f64
  autocast.loss, autocast.NAME     f64, the deviations under autocast: the root of the sum of squares of all differences over that
                                   of all values, where the values of a gradient count at least 1e-3 of the root mean
                                   square of the model's gradients' norms (some are zero but for rounding)
One batch's deviation of the loss may be small by chance; over several it is not.
"""

import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

BATCHES, BATCH, SEQUENCE, VOCABULARY = 6, 2, 16, 61


def run(model, tokens, targets, autocast):
    model.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        logits = model(input_ids=tokens).logits
    logits = logits.float() if autocast else logits
    loss = torch.nn.functional.cross_entropy(
        logits.reshape(-1, VOCABULARY), targets.reshape(-1), ignore_index=-100, reduction="sum")
    loss.backward()
    return loss.detach().double(), {n: p.grad.double().clone() for n, p in model.named_parameters()}


def deviation(differences, values, floor=0.0):
    square = lambda tensors: sum(float((t.double() ** 2).sum()) for t in tensors)
    return torch.tensor((square(differences) / max(square(values), floor)) ** 0.5, dtype=torch.float64)


def record(folder, generator):
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).train()
    exact = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).train()
    shape = (BATCHES, BATCH, SEQUENCE)
    tokens, targets = (torch.randint(0, VOCABULARY, shape, generator=generator) for _ in range(2))
    targets[:, 0, 3] = targets[:, 1, 0] = -100
    f64 = [run(exact, tokens[i], targets[i], False) for i in range(BATCHES)]
    bf16 = [run(model, tokens[i], targets[i], True) for i in range(BATCHES)]
    names = list(f64[0][1])
    mean_square = sum(float((g[n] ** 2).sum()) for _, g in f64 for n in names) / len(names)
    out = {"tokens": tokens.int(), "targets": targets.int(), "loss_sum": torch.stack([loss for loss, _ in f64]),
           "autocast.loss": deviation([a - b for (a, _), (b, _) in zip(f64, bf16)], [a for a, _ in f64])}
    for name in names:
        published = name.removeprefix("transformer.")
        values = [gradients[name] for _, gradients in f64]
        out["gradient." + published] = torch.stack(values).float()
        differences = [g[name] - value for (_, g), value in zip(bf16, values)]
        out["autocast." + published] = deviation(differences, values, 1e-6 * mean_square)
    save_file(out, folder / "bf16.safetensors")
    worst = max((float(v), n) for n, v in out.items() if n.startswith("autocast.") and n != "autocast.loss")
    print(f"{folder.name}: autocast strays by {float(out['autocast.loss']):.1e} in the loss, at most by {worst[0]:.1e} "
          f"in a gradient ({worst[1]})")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}")
    generator = torch.Generator().manual_seed(21)
    for name in ("gpt2", "llama"):
        record(pathlib.Path(sys.argv[1]) / name, generator)


if __name__ == "__main__":
    main()
