#!/usr/bin/env python3
"""Records how PyTorch rounds weights to 16 bits, and how Hugging Face's tools split a model into files.

    make_rounding.py       writes rounding/ next to this script

Needs torch, safetensors and huggingface_hub; test/e2e/export_run_test.py needs only the output.
  config.json         of a model that `dtc export` reads; its tensors belong to no model
  model.safetensors   F32: random bit patterns that are finite in all types; values halfway between two of bf16, two of
                      f16, and their neighbours; subnormal values; zeros of both signs
  bf16.safetensors    the same, rounded by torch.Tensor.to(torch.bfloat16)
  f16.safetensors     the same, rounded by torch.Tensor.to(torch.float16)
  shards.json         by largest size of a file in bytes, as bf16: which file has which tensor, by
                      huggingface_hub.split_torch_state_dict_into_shards
"""

import json
import pathlib
import struct

import torch
from huggingface_hub import split_torch_state_dict_into_shards
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).resolve().parent / "rounding"
LARGEST = 65504.0  # of f16


def floats(bits):
    return torch.tensor([struct.unpack("<f", struct.pack("<I", b & 0xFFFFFFFF))[0] for b in bits], dtype=torch.float32)


def around(dropped):
    """Values halfway between two that have `dropped` bits of an f32's fraction less, and the nearest on both sides."""
    generator, bits = torch.Generator().manual_seed(dropped), []
    for kept in torch.randint(0, 1 << (23 - dropped), (40,), generator=generator).tolist():
        for exponent in (0x70 << 23, 0x7F << 23, 0x8E << 23):  # 2^-15, 1, 2^15
            halfway = exponent | kept << dropped | 1 << (dropped - 1)
            bits += [halfway - 1, halfway, halfway + 1, 1 << 31 | halfway]
    values = floats(bits)
    return values[values.abs() <= LARGEST]


def main():
    HERE.mkdir(exist_ok=True)
    generator = torch.Generator().manual_seed(11)
    random = floats(torch.randint(0, 1 << 32, (6000,), generator=generator).tolist())
    random = random[random.isfinite() & (random.abs() <= LARGEST)]
    small = torch.cat([2.0 ** -torch.arange(10, 150, dtype=torch.float64),
                       3 * 2.0 ** -torch.arange(10, 150, dtype=torch.float64)]).float()
    tensors = {"random": random[:2048].reshape(32, 64), "ties_of_bf16": around(16), "ties_of_f16": around(13),
               "small": torch.stack([small, -small]), "zeros": torch.tensor([0.0, -0.0]), "one": torch.tensor(1.5),
               "none": torch.zeros(0, 3)}
    tensors = {name: tensors[name] for name in sorted(tensors)}
    save_file(tensors, HERE / "model.safetensors", {"format": "pt"})
    narrow = {name: tensor.to(torch.bfloat16) for name, tensor in tensors.items()}
    save_file(narrow, HERE / "bf16.safetensors", {"format": "pt"})
    save_file({name: tensor.to(torch.float16) for name, tensor in tensors.items()}, HERE / "f16.safetensors",
              {"format": "pt"})
    (HERE / "config.json").write_text(json.dumps({"model_type": "llama", "torch_dtype": "float32"}) + "\n")
    shards = {}
    for size in (4200, 5000, 6000, 100000):
        split = split_torch_state_dict_into_shards(narrow, max_shard_size=size)
        shards[size] = {"total_size": split.metadata["total_size"], "weight_map": split.tensor_to_filename}
    (HERE / "shards.json").write_text(json.dumps(shards, indent=1) + "\n")


if __name__ == "__main__":
    main()
