#!/usr/bin/env python3
"""Records what PyTorch computes in ten steps of a small GPT-2: truth_run_test.py compares dtc with it.

    make_truth.py DIRECTORY

Needs torch, transformers and safetensors. DIRECTORY gets
  config.json, model.safetensors   the model before the first step, f32 weights
  tokens.bin                       four samples of 16 tokens and their targets; every step takes all of them
  losses.json                      the loss of each of ten steps of AdamW, in f64
  gradients.safetensors            of the first step's loss, the mean over its 64 targets; stored in f32
"""

import json
import pathlib
import struct
import sys

import torch
import transformers
from safetensors.torch import save_file

VOCABULARY, SAMPLES, SEQUENCE, STEPS = 61, 4, 16, 10


def tensors(of):
    """Published GPT-2 files name tensors without the wrapper's prefix; the head is the embedding."""
    return {name.removeprefix("transformer."): tensor.detach().float().clone() for name, tensor in of}


def main():
    folder = pathlib.Path(sys.argv[1])
    torch.manual_seed(1337)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=24, n_embd=16, n_layer=2, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0,
        attn_pdrop=0.0, bos_token_id=0, eos_token_id=0, attn_implementation="eager"))
    with torch.no_grad():  # biases and norms are random, too, so that a wrong use of one shows
        for name, parameter in model.named_parameters():
            is_norm = "ln_" in name and name.endswith("weight")
            parameter.copy_((0.2 if parameter.dim() > 1 else 0.1) * torch.randn(parameter.shape) + is_norm)
    model.config.architectures = ["GPT2LMHeadModel"]
    model.config.save_pretrained(folder)
    save_file(tensors(model.named_parameters()), folder / "model.safetensors", metadata={"format": "pt"})

    tokens = torch.randint(0, VOCABULARY, (SAMPLES * SEQUENCE + 1,)).tolist()
    (folder / "tokens.bin").write_bytes(struct.pack("<256i", 20240520, 1, len(tokens), *[0] * 253) +
                                        struct.pack(f"<{len(tokens)}H", *tokens))
    inputs, targets = (torch.tensor(tokens[i:i + SAMPLES * SEQUENCE]).reshape(SAMPLES, SEQUENCE) for i in (0, 1))

    model = model.double().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(input_ids=inputs).logits.flatten(0, 1), targets.flatten())
        loss.backward()
        if step == 0:
            save_file(tensors((name, parameter.grad) for name, parameter in model.named_parameters()),
                      folder / "gradients.safetensors", metadata={"format": "pt"})
        losses.append(loss.item())
        optimizer.step()
    (folder / "losses.json").write_text(json.dumps(losses, indent=0) + "\n")
    print(f"torch {torch.__version__}, transformers {transformers.__version__}")
    print(f"loss {losses[0]:.6f} to {losses[-1]:.6f}")


if __name__ == "__main__":
    main()
