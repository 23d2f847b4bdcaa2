#!/usr/bin/env python3
"""Changes keys of each family's configurations and compares dtc's loss with that of transformers.

    fuzz_config.py BUILD CASES [--family NAME] [--seed N] [--first N] [--record FILE]

BUILD is the build directory. Needs torch and transformers; test/e2e/config_run_test.py needs only what --record wrote,
which is stored next to this file as config_cases.json. Each case sets one to three keys to other values, legal or
nearly so, and stores the weights in one of the forms of config_cases.py. transformers loads the directory and computes
the loss of one window in f64 from f32 weights. dtc must compute the same to 1e-5, or refuse the directory; where
transformers refuses it, or would start with some weights random, dtc must refuse it too. Exits with 1 when some case
does neither.

--record adds to a file the cases that dtc accepted, and one refusal for each set of keys.
"""

import argparse
import collections
import json
import math
import os
import pathlib
import random
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
TOLERANCE = 1e-5

COMMON = {
    "vocab_size": [1, 2, 7, 64, 100], "initializer_range": [0.0, 0.5, -0.02], "use_cache": [True, False],
    "bos_token_id": [None, 0, 60], "eos_token_id": [None, 3], "pad_token_id": [None, 0, 5, 60, -1, 61, -62],
    "tie_word_embeddings": [True, False], "is_decoder": [True, False], "is_encoder_decoder": [True, False],
    "chunk_size_feed_forward": [0, 4], "output_attentions": [True], "output_hidden_states": [True],
    "return_dict": [True], "dtype": ["float32", "bfloat16", "float16"], "torch_dtype": ["float32", "bfloat16"],
    "problem_type": ["regression", None], "gradient_checkpointing": [True, False], "torchscript": [True, False],
    "tie_encoder_decoder": [True, False], "loss_type": ["ForCausalLM", None], "id2label": [{"0": "A"}],
    "num_labels": [3], "_num_labels": [1], "transformers_version": ["4.2.0"], "_name_or_path": ["x"], "a_new_key": [None, 3, False],
    "cross_attention_hidden_size": [None, 8], "attn_implementation": ["eager", "sdpa"], "max_length": [5],
    "do_sample": [True], "temperature": [0.5], "task_specific_params": [{"text-generation": {"max_length": 50}}],
    "pruned_heads": [{}, {"0": [1]}], "tokenizer_class": ["X"], "sep_token_id": [4], "quantization_config": [None]}
ACTIVATIONS = ["gelu", "gelu_new", "gelu_fast", "gelu_python", "gelu_pytorch_tanh", "gelu_python_tanh", "gelu_accurate",
               "quick_gelu", "relu", "relu2", "relu6", "silu", "swish", "tanh", "sigmoid", "linear", "mish", "gelu_10",
               "hardswish", "leaky_relu", "laplace"]
RATES = [0, 0.1, 0.9, 1.0]
EPSILONS = [0.0, 1e-12, 1e-5, 1e-2, 1.0, 3.0, -1e-6]  # transformers refuses whole numbers by their type
VALUES = {
    "gpt2": COMMON | {
        "n_positions": [8, 16, 17, 64], "n_embd": [4, 8, 12, 20, 32], "n_layer": [1, 3], "n_head": [1, 2, 8, 16],
        "n_inner": [None, 1, 17, 64], "activation_function": ACTIVATIONS, "resid_pdrop": RATES, "embd_pdrop": RATES,
        "attn_pdrop": RATES, "layer_norm_epsilon": EPSILONS, "scale_attn_weights": [True, False],
        "scale_attn_by_inverse_layer_idx": [True, False], "reorder_and_upcast_attn": [True, False],
        "add_cross_attention": [True, False], "summary_type": ["mean"], "summary_first_dropout": [0.5],
        "summary_activation": ["tanh"], "n_ctx": [8, 1024], "n_special": [0, 2], "predict_special_tokens": [True, False],
        "output_past": [True, False], "hidden_size": [16, 8], "num_hidden_layers": [1, 2],
        "num_attention_heads": [2, 4], "max_position_embeddings": [24, 8], "intermediate_size": [64, 5],
        "architectures": [["GPT2LMHeadModel"], ["GPT2Model"], ["GPT2DoubleHeadsModel"]]},
    "llama": COMMON | {
        "max_position_embeddings": [8, 16, 64], "hidden_size": [4, 8, 24, 18], "intermediate_size": [1, 17, 64],
        "num_hidden_layers": [1, 3], "num_attention_heads": [1, 2, 8], "num_key_value_heads": [None, 1, 3, 4, "(removed)"],
        "head_dim": [None, 2, 4, 6, 8, 3], "hidden_act": ACTIVATIONS,
        "rms_norm_eps": EPSILONS, "attention_dropout": RATES, "attention_bias": [True, False], "mlp_bias": [True, False],
        "pretraining_tp": [1, 2], "sliding_window": [None, 4], "rope_theta": [10000, 100.0, 500000, 2, 1.5, 1, 0.5],
        "rope_scaling": [None, {}, {"type": "default"}, {"rope_type": "default", "rope_theta": 77.0},
                         {"type": "linear", "factor": 2.0}, {"rope_type": "dynamic", "factor": 2.0},
                         {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                          "original_max_position_embeddings": 8},
                         {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
                         {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 6},
                         {"rope_type": "yarn", "type": "linear", "factor": 2, "rope_theta": 50.0, "beta_fast": 2,
                          "beta_slow": 0.25, "truncate": False, "original_max_position_embeddings": 20},
                         {"rope_type": "yarn", "factor": 3.0, "attention_factor": 1.5, "beta_slow": 0},
                         {"rope_type": "yarn", "factor": 3.0, "mscale": 2.0, "mscale_all_dim": 0.5},
                         {"type": "su", "short_factor": [1.0, 2.0], "long_factor": [1.0, 2.0]}],
        "rope_parameters": [None, {}, {"rope_theta": 50.0, "rope_type": "default"}, {"rope_type": "default"},
                            {"rope_theta": 500000}, {"rope_theta": 100.0, "partial_rotary_factor": 0.5},
                            {"rope_type": "linear", "factor": 4.0, "rope_theta": 100.0}, {"rope_theta": None}],
        "partial_rotary_factor": [1.0, 0.5], "is_llama_config": [True], "rope_interleaved": [False, True],
        "layer_types": [["full_attention", "full_attention"]], "original_max_position_embeddings": [8],
        "architectures": [["LlamaForCausalLM"], ["LlamaModel"]]}}
WINDOWS = {"sliding_window": [None, 4, 15, 16, 24, 4096, "(removed)"], "num_key_value_heads": [None, 1, 4, "(removed)"],
           "layer_types": [["full_attention"] * 2, ["sliding_attention"] * 2, ["full_attention", "sliding_attention"],
                           ["full_attention"], ["chunked_attention"] * 2],
           "use_sliding_window": [True, False], "max_window_layers": [0, 1, 28]}
CAPS = [None, 0.7, 5.0, 0.0, -2.0, "(removed)"]
FACTORS = [1.0, 0.0, 2, -0.5, 12.0, None]
GEMMA = WINDOWS | {"query_pre_attn_scalar": [1, 7, 256, 0], "hidden_activation": ACTIVATIONS, "hidden_act": ["silu"],
                   "final_logit_softcapping": CAPS, "attn_logit_softcapping": CAPS,
                   "use_bidirectional_attention": [True, False, None]}
OWN = {
    "mistral": WINDOWS, "qwen2": WINDOWS, "qwen3": WINDOWS, "olmo2": {}, "gemma2": GEMMA,
    "gemma3_text": GEMMA | {
        "rope_local_base_freq": [50.0, 10000, 1], "sliding_window_pattern": [1, 2, 6], "_sliding_window_pattern": [2],
        "rope_parameters": [None, {}, {"rope_theta": 50.0}, {"full_attention": {"rope_theta": 50.0}},
                            {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000.0},
                             "sliding_attention": {"rope_type": "default", "rope_theta": 50.0}},
                            {"sliding_attention": {"rope_type": "linear", "factor": 2.0}},
                            {"full_attention": {"rope_type": "yarn", "factor": 2.0}}]},
    "phi3": {"sliding_window": WINDOWS["sliding_window"], "partial_rotary_factor": [1.0, 0.5, 0.75, 0.3, 0.0, 1.5],
             "resid_pdrop": RATES, "embd_pdrop": RATES, "original_max_position_embeddings": [8, 24],
             "hidden_size": [16, 32, 40]},
    "smollm3": WINDOWS | {"no_rope_layers": [None, [1, 0], [0, 0], [0, 1, 1], [1], [True, False], [2, 0]],
                          "no_rope_layer_interval": [1, 2, 4, 0]},
    "granite": {"embedding_multiplier": FACTORS, "attention_multiplier": FACTORS, "residual_multiplier": FACTORS,
                "logits_scaling": FACTORS}}
for family, own in OWN.items():
    VALUES[family] = VALUES["llama"] | own | {"architectures": [[family.capitalize() + "ForCausalLM"]]}
OWN["gpt_neox"] = {
    "use_parallel_residual": [True, False], "attention_bias": [True, False], "hidden_dropout": RATES,
    "classifier_dropout": [0.1, 0.5], "layer_norm_eps": EPSILONS, "rotary_pct": [0.25, 0.5, 1.0, 0.1, 0.0],
    "rotary_emb_base": [10000, 50.0, 1], "hidden_size": [16, 8, 32, 15], "num_attention_heads": [1, 2, 3, 4]}
VALUES["gpt_neox"] = {key: options for key, options in VALUES["llama"].items() if key not in (
    "num_key_value_heads", "rms_norm_eps", "mlp_bias")} | OWN["gpt_neox"]
FORMS = {family: ["plain", "f16", "equal_head", "other_head", "extra"] for family in VALUES} | {
    "gpt2": ["plain", "prefixed", "f16", "equal_head", "other_head", "buffers", "extra"],
    "gpt_neox": ["plain", "f16", "equal_head", "other_head", "older", "extra"]}


def draw(source, families, first=None):
    family = first[0] if first else source.choice(families)
    keys = list(VALUES[family])
    chosen = [first[1]] if first else []
    # One key alone half of the time: then that key is the cause of a difference.
    chosen += source.sample(keys, source.choice([0, 0, 1, 2]) if first else source.choice([1, 1, 2, 3]))
    changes = {key: source.choice(VALUES[family][key]) for key in chosen}
    if first:
        changes[first[1]] = first[2]
    return {"family": family, "changes": changes, "weights": source.choice(["plain"] * 6 + FORMS[family])}


def describe(error):
    return f"{type(error).__name__}: {error}".splitlines()[0][:200]


class Transformers:
    """Losses from transformers, in f64 from f32 weights."""

    def __init__(self):
        import torch
        import transformers
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        self.torch, self.transformers = torch, transformers

    def shapes(self, directory):
        """What its model would save, by published names; tied tensors once."""
        config = self.transformers.AutoConfig.from_pretrained(directory)
        model = self.transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
        return {name.removeprefix("transformer."): list(value.shape) for name, value in model.named_parameters()}

    def loss(self, directory, tokens):
        model, info = self.transformers.AutoModelForCausalLM.from_pretrained(
            directory, output_loading_info=True, dtype=self.torch.float32, attn_implementation="eager")
        lacks = {key: sorted(info[key]) for key in ("missing_keys", "mismatched_keys") if info.get(key)}
        if lacks:
            raise ValueError(f"starts from random weights: {lacks}")
        with self.torch.no_grad():
            window = self.torch.tensor([tokens])
            if not getattr(model.config, "reorder_and_upcast_attn", False):  # which is for f32 alone
                model.double()
            logits = model.eval()(input_ids=window[:, :-1], return_dict=True).logits
            return self.torch.nn.functional.cross_entropy(logits[0], window[0, 1:]).item()


def judge(case, expected, actual):
    """Why a case is wrong, or None. `expected` and `actual` are losses, or text where one refused."""
    if isinstance(actual, str):
        return None
    if isinstance(expected, str):
        return f"dtc computes {actual}, transformers refuses: {expected}"
    both_nan = math.isnan(expected) and math.isnan(actual)
    if both_nan or abs(actual - expected) <= TOLERANCE * abs(expected):
        return None
    return f"dtc computes {actual}, transformers {expected}"


def compare(case, peer, interpreter, directory, always):
    """(transformers' loss or refusal, dtc's loss or refusal). Where dtc refuses, transformers is asked only if `always`."""
    from config_cases import config_of, tensors, window, write_model

    write_model(directory, case)
    shapes = tensors(config_of(case))
    if not always and isinstance(actual := interpreter.loss(directory, case), str):
        return "not asked", actual
    try:
        shapes = peer.shapes(directory)
        write_model(directory, case, shapes)
        expected = peer.loss(directory, window(case))
    except Exception as error:  # whatever transformers raises counts as its refusal
        expected = describe(error)
    actual = interpreter.loss(directory, case)
    if not isinstance(actual, str) and shapes != tensors(config_of(case)):
        raise RuntimeError(f"{case}: config_cases.py gives other tensors than transformers")
    return expected, actual


def all_values():
    """Every value of every key that a family does not share with llama, alone or with others."""
    return [(family, key, value) for family in VALUES for key, options in (OWN.get(family) or VALUES[family]).items()
            for value in options]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("cases", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="number of the first case: cases follow from seed and number")
    parser.add_argument("--family", choices=list(VALUES), help="this one alone")
    parser.add_argument("--record", type=pathlib.Path)
    options = parser.parse_args()
    os.environ |= {"DTC_BIN": str(options.build.resolve() / "bin"), "DTC_SOURCE": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    sys.path.insert(0, str(ROOT / "test/e2e"))
    from config_cases import Interpreter
    peer, counts, wrong, seen, first = Transformers(), collections.Counter(), 0, set(), all_values()
    families = [options.family] if options.family else list(VALUES)
    first = [each for each in first if each[0] in families]
    kept = json.loads(options.record.read_text()) if options.record and options.record.exists() else []
    with Interpreter(options.build / "test/e2e/config_loss") as interpreter, tempfile.TemporaryDirectory() as work:
        for number in range(options.first, options.first + options.cases):
            source = random.Random(f"{options.seed}:{number}")
            case = draw(source, families, first[number] if number < len(first) else None)
            expected, actual = compare(case, peer, interpreter, pathlib.Path(work), options.record)
            problem = judge(case, expected, actual)
            counts["refused" if isinstance(actual, str) else "equal" if not problem else "wrong"] += 1
            if problem:
                wrong += 1
                print(f"WRONG {json.dumps(case)}: {problem}", flush=True)
            elif isinstance(actual, str) and not isinstance(expected, str):
                print(f"refused {json.dumps(case)}: {actual.strip().splitlines()[0][-160:]}", flush=True)
            identity = (case["family"], tuple(case["changes"]), isinstance(actual, str))
            if not problem and (not isinstance(actual, str) or identity not in seen):
                seen.add(identity)
                kept.append(case | ({"refused": True} if isinstance(actual, str) else {"loss": expected}))
    print(f"{wrong} wrong of {options.cases} from {options.first}, seed {options.seed}: {dict(counts)}")
    if options.record:
        options.record.write_text("[\n" + ",\n".join(map(json.dumps, kept)) + "\n]\n")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
