#!/usr/bin/env python3
"""Records which tokens transformers' logits warpers leave to be drawn, and their probabilities: the oracle for how
`dtc sample` chooses.

    make_choices.py FILE      writes FILE (choices.json, beside this script): for each case the logits, temperature, top_k
                              and top_p (0 and 1: all), the ids that remain and the probability of each

The warpers run in f64. Logits are f32 numbers; null stands for minus infinity. Needs torch and transformers; tests need
only the output.
"""

import json
import random
import sys

import torch
import transformers
from transformers.generation.logits_process import TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper


def run(logits, temperature, top_k, top_p):
    scores = torch.tensor([[float("-inf") if logit is None else logit for logit in logits]], dtype=torch.float64)
    # As GenerationMixin._get_logits_processor orders them.
    warpers = [TemperatureLogitsWarper(temperature)]
    if top_k:
        warpers.append(TopKLogitsWarper(top_k))
    if top_p < 1:
        warpers.append(TopPLogitsWarper(top_p))
    for warper in warpers:
        scores = warper(None, scores)
    probabilities = torch.softmax(scores, -1)[0]
    ids = [id for id, probability in enumerate(probabilities.tolist()) if probability > 0]
    return {"logits": logits, "temperature": temperature, "top_k": top_k, "top_p": top_p, "ids": ids,
            "probabilities": [probabilities[id].item() for id in ids]}


def numbers(source, count, spread):
    """Random logits that are f32 numbers."""
    return torch.tensor([source.gauss(0, spread) for _ in range(count)], dtype=torch.float32).tolist()


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    source = random.Random(5)
    cases = []
    for count, spread, temperature, top_k, top_p in [
            (40, 2, 1.0, 0, 1.0), (40, 2, 0.7, 0, 1.0), (40, 2, 1.5, 0, 1.0), (40, 2, 1.0, 5, 1.0), (40, 2, 0.8, 1, 1.0),
            (40, 2, 1.0, 40, 1.0), (40, 2, 1.0, 90, 1.0), (40, 2, 1.0, 0, 0.9), (40, 2, 0.7, 0, 0.5), (40, 2, 1.3, 0, 0.99),
            (40, 2, 1.0, 0, 0.01), (40, 2, 1.0, 0, 0.0), (40, 2, 0.8, 10, 0.9), (40, 2, 1.7, 20, 0.6), (40, 9, 0.05, 0, 0.95),
            (1, 1, 1.0, 3, 0.5), (60, 3, 1.0, 12, 0.8)]:
        cases.append(run(numbers(source, count, spread), temperature, top_k, top_p))
    # Equal logits: at the last of the K, and where the probability is full.
    tied = [1.0, 3.0, 2.0, 3.0, 2.0, 2.0, 0.0, 3.0]
    for top_k, top_p in [(0, 1.0), (2, 1.0), (4, 1.0), (0, 0.3), (0, 0.8), (4, 0.85)]:
        cases.append(run(tied, 1.0, top_k, top_p))
    for top_p in (0.5, 0.25, 0.125, 0.0625, 0.7):
        cases.append(run([0.5] * 8, 2.0, 0, top_p))
    # Tokens that must not follow.
    for top_k, top_p in [(0, 1.0), (3, 1.0), (5, 0.9)]:
        cases.append(run([None, 1.0, None, 0.5, None, None], 1.0, top_k, top_p))
    with open(sys.argv[1], "w") as file:
        json.dump({"transformers": transformers.__version__, "torch": torch.__version__, "cases": cases}, file)
        file.write("\n")
    print(f"transformers {transformers.__version__}: {len(cases)} cases")


if __name__ == "__main__":
    main()
