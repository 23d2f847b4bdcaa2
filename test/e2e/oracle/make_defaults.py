#!/usr/bin/env python3
"""Records what transformers' configuration classes take where a config.json is silent.

    make_defaults.py FILE      writes FILE, a JSON object of each family's keys and values

Needs transformers; test/frontends/config_test.cpp needs only the file, which lies beside this one as defaults.json.
"""

import json
import sys

import transformers

FAMILIES = {"gpt2": transformers.GPT2Config, "llama": transformers.LlamaConfig, "mistral": transformers.MistralConfig,
            "qwen2": transformers.Qwen2Config}
GENERAL = set(transformers.PretrainedConfig().to_dict()) - {"tie_word_embeddings"}


def defaults(family):
    other = family(num_attention_heads=16, hidden_size=1024).to_dict()
    values = {key: value for key, value in family().to_dict().items() if key not in GENERAL}
    for key in set(values) - {"num_attention_heads", "hidden_size", "n_embd", "n_head"}:
        if values[key] != other[key]:  # it follows from others
            del values[key]
    rotary = values.pop("rope_parameters", {})
    if rotary:
        assert rotary.pop("rope_type") == "default"
        values |= rotary
    values.pop("layer_types", None)  # follows from the others
    if "use_sliding_window" in values:  # else the class drops it
        values["sliding_window"] = family(use_sliding_window=True).sliding_window
    return values


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    recorded = {"transformers": transformers.__version__} | {name: defaults(f) for name, f in FAMILIES.items()}
    with open(sys.argv[1], "w") as file:
        json.dump(recorded, file, indent=1, sort_keys=True)
        file.write("\n")


if __name__ == "__main__":
    main()
