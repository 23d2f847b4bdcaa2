#!/usr/bin/env python3
"""Records how transformers initialises models: the oracle for dtc's initial weights.

    make_initial.py > initial.json

Needs torch and transformers. For each model: its config.json, and for each tensor of the checkpoint its shape, mean,
deviation and kurtosis (3 for normal numbers, null where all are equal) over 16 seeds.
"""

import json

import torch
import transformers

SEEDS = 16
GPT2 = {"model_type": "gpt2", "vocab_size": 128, "n_positions": 32, "n_embd": 64, "n_layer": 3, "n_head": 4}
LLAMA = {"model_type": "llama", "vocab_size": 128, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32, "rms_norm_eps": 1e-5}
CONFIGS = [GPT2, {**GPT2, "n_inner": 96, "n_layer": 5, "initializer_range": 0.05},
           {**LLAMA, "tie_word_embeddings": False}, {**LLAMA, "tie_word_embeddings": True, "initializer_range": 0.03}]
FAMILIES = {"mistral": {}, "qwen2": {}, "qwen3": {"head_dim": 16, "attention_bias": True}, "olmo2": {"pad_token_id": 1},
            "phi3": {"pad_token_id": None}, "gemma2": {"head_dim": 16}, "gemma3_text": {"head_dim": 16, "pad_token_id": 3},
            "smollm3": {"pad_token_id": None}, "granite": {"mlp_bias": True}}
CONFIGS += [{**LLAMA, "model_type": family, **own} for family, own in FAMILIES.items()]
CONFIGS += [{"model_type": "gpt_neox", "vocab_size": 128, "hidden_size": 64, "intermediate_size": 96,
             "num_hidden_layers": 3, "num_attention_heads": 4, "max_position_embeddings": 32}]


def initial(config, seed):
    """The tensors of a checkpoint; gpt2's under the published names, without the wrapper's prefix."""
    torch.manual_seed(seed)
    settings = {key: value for key, value in config.items() if key != "model_type"}
    loaded = transformers.AutoConfig.for_model(config["model_type"], bos_token_id=0, eos_token_id=0, **settings)
    model = transformers.AutoModelForCausalLM.from_config(loaded)
    return {name.removeprefix("transformer."): tensor.detach().double() for name, tensor in model.named_parameters()}


def describe(tensors):
    values = torch.stack(tensors)
    mean, deviation = values.mean(), values.std(correction=0)
    kurtosis = None if deviation == 0 else float(((values - mean) / deviation).pow(4).mean())
    return {"shape": list(tensors[0].shape), "mean": float(mean), "deviation": float(deviation), "kurtosis": kurtosis}


models = []
for config in CONFIGS:
    drawn = [initial(config, seed) for seed in range(SEEDS)]
    lines = [f"  {json.dumps(name)}: {json.dumps(describe([each[name] for each in drawn]))}" for name in drawn[0]]
    models.append(f' {{"config": {json.dumps(config)}, "tensors": {{\n' + ",\n".join(lines) + "}}")
print(f'{{"transformers": "{transformers.__version__}", "seeds": {SEEDS}, "models": [')
print(",\n".join(models) + "]}")
