#!/usr/bin/env python3
"""Records the defaults of transformers' configuration classes for keys that a config.json lacks.

    make_defaults.py FILE      writes FILE, a JSON object of each family's keys and values

Needs transformers; test/frontends/config_test.cpp needs only the file, which is stored next to this one as
defaults.json.
"""

import json
import sys

import transformers

FAMILIES = {"gemma2": transformers.Gemma2Config, "gemma3_text": transformers.Gemma3TextConfig,
            "gpt2": transformers.GPT2Config, "gpt_neox": transformers.GPTNeoXConfig,
            "granite": transformers.GraniteConfig, "llama": transformers.LlamaConfig,
            "mistral": transformers.MistralConfig, "olmo2": transformers.Olmo2Config, "phi3": transformers.Phi3Config,
            "qwen2": transformers.Qwen2Config, "qwen3": transformers.Qwen3Config, "smollm3": transformers.SmolLM3Config}
GENERAL = set(transformers.PretrainedConfig().to_dict()) - {"tie_word_embeddings", "pad_token_id"}
OLDER = {"gpt_neox": {"rope_theta": "rotary_emb_base", "partial_rotary_factor": "rotary_pct"}}  # what files state


def rotary_of(family, rotary):
    """The keys that files had before rope_parameters."""
    if "full_attention" in rotary:
        local = rotary_of(family, rotary["sliding_attention"])
        return rotary_of(family, rotary["full_attention"]) | {"rope_local_base_freq": local["rope_theta"]}
    assert rotary.pop("rope_type") == "default"
    return {OLDER.get(family, {}).get(key, key): value for key, value in rotary.items()}


def defaults(name, family):
    other = family(num_attention_heads=16, hidden_size=1024).to_dict()
    values = {key: value for key, value in family().to_dict().items() if key not in GENERAL}
    for key in set(values) - {"num_attention_heads", "hidden_size", "n_embd", "n_head"}:
        if values[key] != other[key]:  # it follows from other keys
            del values[key]
    rotary = values.pop("rope_parameters", {})
    if rotary:
        values |= rotary_of(name, rotary)
    for derived in ("layer_types", "no_rope_layers"):  # these follow from the others
        values.pop(derived, None)
    if "_sliding_window_pattern" in values:
        values["sliding_window_pattern"] = values.pop("_sliding_window_pattern")
    if "use_sliding_window" in values:  # otherwise the class drops it
        values["sliding_window"] = family(use_sliding_window=True).sliding_window
    return values


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    recorded = {"transformers": transformers.__version__} | {name: defaults(name, f) for name, f in FAMILIES.items()}
    with open(sys.argv[1], "w") as file:
        json.dump(recorded, file, indent=1, sort_keys=True)
        file.write("\n")


if __name__ == "__main__":
    main()
