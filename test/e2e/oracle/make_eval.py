#!/usr/bin/env python3
"""Records the losses of transformers for documents, all together and one by one: the oracle of `dtc eval`.

    make_eval.py FILE      writes FILE, which is eval.json next to this script

Needs torch and transformers; tests need only the output. The weights are those of MODEL next to this file, computed in
f64. FILE holds
  sequence_length, documents   lists of tokens
  MODEL.all                    {tokens, loss}: the documents laid end to end and cut into windows of sequence_length + 1
                               tokens, each sharing one with the next; every window is computed alone, and loss is the mean
  MODEL.documents              the same of each document by itself; loss is null where there is no target
"""

import json
import pathlib
import sys

import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
MODELS = ["gpt2", "llama"]
LENGTH = 16
SIZES = [5, 40, 1, 17, 33, 2]  # of documents: several windows, no target, a full window, one target
VOCABULARY = 61


def evaluate(model, tokens):
    total = 0.0
    for begin in range(0, len(tokens) - 1, LENGTH):
        window = torch.tensor(tokens[begin:begin + LENGTH + 1])
        logits = model(input_ids=window[None, :-1]).logits[0]
        total += torch.nn.functional.cross_entropy(logits, window[1:], reduction="sum").item()
    targets = len(tokens) - 1
    return {"tokens": targets, "loss": total / targets if targets else None}


@torch.no_grad()
def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}")
    generator = torch.Generator().manual_seed(43)
    documents = [torch.randint(0, VOCABULARY, (size,), generator=generator).tolist() for size in SIZES]
    record = {"sequence_length": LENGTH, "documents": documents}
    for name in MODELS:
        model = transformers.AutoModelForCausalLM.from_pretrained(
            HERE / name, dtype=torch.float32, attn_implementation="eager").double().eval()
        record[name] = {"all": evaluate(model, sum(documents, [])),
                        "documents": [evaluate(model, document) for document in documents]}
        print(f"{name}: {record[name]['all']}")
    pathlib.Path(sys.argv[1]).write_text(json.dumps(record, indent=1) + "\n")


main()
