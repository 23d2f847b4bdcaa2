#!/usr/bin/env python3
"""Writes a model directory of Llama 3.2's kind, scaled down, with random weights in f32.

    make_llama.py DIRECTORY [--seed 1]

Llama 3.2 1B has 16 layers, grouped-query attention with four query heads per key/value head, tied embeddings and the
llama3 scaling of rotary positions. So does this model, but it is 512 wide instead of 2048, with 8 query heads of 64
instead of 32, an MLP of 2048 instead of 8192 and 16384 tokens instead of 128256: 69 million parameters instead of 1236.
Needs torch and transformers.
"""

import argparse

import torch
import transformers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    config = transformers.LlamaConfig(
        vocab_size=16384, hidden_size=512, intermediate_size=2048, num_hidden_layers=16, num_attention_heads=8,
        num_key_value_heads=2, head_dim=64, max_position_embeddings=131072, rms_norm_eps=1e-5, tie_word_embeddings=True,
        rope_parameters={"rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0, "low_freq_factor": 1.0,
                         "high_freq_factor": 4.0, "original_max_position_embeddings": 8192},
        bos_token_id=None, eos_token_id=None)
    model = transformers.LlamaForCausalLM(config).float()
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f} million parameters")
    model.save_pretrained(args.directory)


if __name__ == "__main__":
    main()
