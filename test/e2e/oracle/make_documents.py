#!/usr/bin/env python3
"""Records the losses and gradients of documents one by one: the oracle for rows in which several are packed.

    make_documents.py DIRECTORY      writes DIRECTORY/documents_MODEL/expected.safetensors for all of MODELS

Needs torch, transformers and safetensors; tests need only the output, which is stored next to this file. The weights
are those of MODEL next to this file. transformers computes each document alone, from position 0 on, in f64. The file
holds
  tokens, targets [2, 16] i32   the documents in two rows; -100 where a document ends
  document_starts [2, 16] i32   the column at which each token's document begins
  loss_sum f64, token_count i32, gradient.NAME f64   as in make_oracle.py, sums over all documents
"""

import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).resolve().parent
MODELS = ["gpt2", "llama", "gemma2", "gpt_neox"]  # learned positions, rotary positions, windows, parts of heads
DOCUMENTS = [[5, 7, 4], [3, 1, 12]]  # lengths, by row
VOCABULARY = 61


def record(name, folder):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        HERE / name, dtype=torch.float32, attn_implementation="eager").double().train()
    generator = torch.Generator().manual_seed(41)
    tokens, targets, starts, loss = [], [], [], 0
    for lengths in DOCUMENTS:
        row, wanted, begins = [], [], []
        for length in lengths:
            document = torch.randint(0, VOCABULARY, (length,), generator=generator)
            begins += [len(row)] * length
            row += document.tolist()
            wanted += document[1:].tolist() + [-100]
            if length > 1:
                logits = model(input_ids=document[None]).logits[0, :-1]
                loss = loss + torch.nn.functional.cross_entropy(logits, document[1:], reduction="sum")
        tokens.append(row), targets.append(wanted), starts.append(begins)
    loss.backward()
    targets = torch.tensor(targets, dtype=torch.int32)
    expected = {"tokens": torch.tensor(tokens, dtype=torch.int32), "targets": targets,
                "document_starts": torch.tensor(starts, dtype=torch.int32), "loss_sum": loss.detach(),
                "token_count": (targets != -100).sum().int()}
    expected |= {"gradient." + n.removeprefix("transformer."): p.grad for n, p in model.named_parameters()}
    folder.mkdir(parents=True, exist_ok=True)
    save_file(expected, folder / "expected.safetensors")
    print(f"{folder.name}: loss sum {loss.item():.12f} over {expected['token_count'].item()} tokens")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}")
    for name in MODELS:
        record(name, pathlib.Path(sys.argv[1]) / f"documents_{name}")


if __name__ == "__main__":
    main()
