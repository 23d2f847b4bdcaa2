#!/usr/bin/env python3
"""Records losses and gradient norms of the models of odd_rows.py, in f64, and how far PyTorch's bf16 autocast strays.

    make_odd_rows.py FILE      writes FILE, which is odd_rows.json next to this script

Needs torch and transformers. For each model and centre: "loss" and "grad_norm", lists over batches, of the mean loss; and
"loss_deviation" and "grad_norm_deviation" of autocast: the root of the mean of squares of the relative differences.
"""

import json
import pathlib
import sys

import torch
import transformers

import odd_rows


def measure(model, tokens, autocast):
    model.zero_grad()
    samples = torch.tensor(tokens[:-1]).reshape(odd_rows.SAMPLES, odd_rows.SEQUENCE)
    targets = torch.tensor(tokens[1:])
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
        logits = model(input_ids=samples).logits
    logits = logits.float() if autocast else logits
    loss = torch.nn.functional.cross_entropy(logits.reshape(len(targets), -1), targets)
    loss.backward()
    squares = sum(float((parameter.grad.double() ** 2).sum()) for parameter in model.parameters())
    return float(loss), squares ** 0.5


def deviation(exact, measured):
    return (sum(((a - b) / a) ** 2 for a, b in zip(exact, measured)) / len(exact)) ** 0.5


def record(name, centre):
    models = {}
    for dtype in (torch.float64, torch.float32):
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(**odd_rows.config(name))).to(torch.float32)
        state = {"transformer." + key: torch.tensor(values, dtype=torch.float32).reshape(shape)
                 for key, (shape, values) in odd_rows.weights(name, centre).items()}
        missing, unexpected = model.load_state_dict(state, strict=False)
        assert not unexpected and missing == ["lm_head.weight"], (missing, unexpected)
        model.tie_weights()
        models[dtype] = model.to(dtype).train()
    batches = [odd_rows.tokens(name, batch) for batch in range(odd_rows.BATCHES)]
    exact = [measure(models[torch.float64], batch, False) for batch in batches]
    rounded = [measure(models[torch.float32], batch, True) for batch in batches]
    result = {}
    for i, what in enumerate(("loss", "grad_norm")):
        result[what] = [pair[i] for pair in exact]
        result[what + "_deviation"] = deviation(result[what], [pair[i] for pair in rounded])
    print(name, centre, {key: value for key, value in result.items() if "deviation" in key}, result["loss"])
    return result


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}")
    record_of = {name: {str(centre): record(name, centre) for centre in odd_rows.CENTRES} for name in odd_rows.MODELS}
    pathlib.Path(sys.argv[1]).write_text(json.dumps(record_of, indent=1) + "\n")


if __name__ == "__main__":
    main()
