#!/usr/bin/env python3
"""Records what PyTorch computes for small models of each family: the oracle for dtc's losses and gradients.

    make_oracle.py DIRECTORY      writes DIRECTORY/MODEL/ for all of MODELS

Needs torch, transformers and safetensors; tests need only the output, which is stored next to this file. Each folder
holds
  config.json, model.safetensors   the model as transformers saves it, f32 weights
  expected.safetensors             tokens, targets [2, 16] i32 (-100: ignored); loss_sum f64, the sum over valid
                                   targets; token_count i32; logits f64; and for each tensor NAME of
                                   model.safetensors "gradient.NAME" f64, the gradient of loss_sum
computed in f64 from the f32 weights. Biases and norm weights are random too, so that a wrong use of one shows.
"""

import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file

BATCH, SEQUENCE, VOCABULARY = 2, 16, 61


def gpt2():
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=24, n_embd=16, n_layer=2, n_head=4,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0)
    return transformers.GPT2LMHeadModel(config)


def decoder(family, config=None, **settings):
    """A model of llama's kind."""
    config = getattr(transformers, (config or family) + "Config")(**{**dict(
        vocab_size=VOCABULARY, max_position_embeddings=24, hidden_size=16, intermediate_size=24, num_hidden_layers=1,
        num_attention_heads=4, num_key_value_heads=2, rms_norm_eps=1e-5, tie_word_embeddings=False, bos_token_id=0,
        eos_token_id=0, pad_token_id=None), **settings})
    return getattr(transformers, family + "ForCausalLM")(config)


def newer(family, **settings):
    """One with room for a continuation, several layers, and sizes that do not divide."""
    return decoder(family, **{**dict(max_position_embeddings=48, intermediate_size=26, num_hidden_layers=2,
                                     rope_parameters={"rope_type": "default", "rope_theta": 100.0}), **settings})


def neox(**settings):
    config = transformers.GPTNeoXConfig(**{**dict(
        vocab_size=VOCABULARY, max_position_embeddings=48, hidden_size=24, intermediate_size=26, num_hidden_layers=2,
        num_attention_heads=3, bos_token_id=0, eos_token_id=0,
        rope_parameters={"rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5}), **settings})
    return transformers.GPTNeoXForCausalLM(config)


LLAMA3 = {"rope_type": "llama3", "rope_theta": 100.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 64}
YARN = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 12,
        "beta_fast": 4.0, "beta_slow": 0.5}
GEMMA3 = {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000.0},
          "sliding_attention": {"rope_type": "default", "rope_theta": 50.0}}

MODELS = {  # the seed of its weights and tokens (None: after those of the model before), and the model
    "gpt2": (20, gpt2),
    "llama": (None, lambda: decoder("Llama", num_hidden_layers=2)),
    "llama_tied": (None, lambda: decoder("Llama", tie_word_embeddings=True)),
    "llama_padding": (None, lambda: decoder("Llama", tie_word_embeddings=True, pad_token_id=5)),
    "llama_biases": (21, lambda: decoder("Llama", attention_bias=True, mlp_bias=True)),
    "mistral": (22, lambda: decoder("Mistral", head_dim=6, sliding_window=16, num_hidden_layers=2)),
    "qwen2": (23, lambda: decoder("Qwen2", tie_word_embeddings=True, sliding_window=4, num_hidden_layers=2,
                                  rope_parameters={"rope_type": "default", "rope_theta": 1000.0})),
    "llama_llama3": (24, lambda: newer("Llama", head_dim=8, rope_parameters=LLAMA3)),
    "llama_yarn": (25, lambda: newer("Llama", head_dim=12, rope_parameters=YARN)),
    "qwen3": (26, lambda: newer("Qwen3", head_dim=6, use_sliding_window=True, sliding_window=5, max_window_layers=1,
                                rope_parameters={"rope_type": "linear", "rope_theta": 100.0, "factor": 2.5})),
    "olmo2": (27, lambda: newer("Olmo2")),
    "phi3": (28, lambda: newer("Phi3", hidden_size=32, sliding_window=6, rope_parameters={
        "rope_type": "default", "rope_theta": 100.0, "partial_rotary_factor": 0.5})),
    "gemma2": (29, lambda: newer("Gemma2", head_dim=6, sliding_window=5, query_pre_attn_scalar=10, pad_token_id=0,
                                 attn_logit_softcapping=4.0, final_logit_softcapping=3.0, tie_word_embeddings=True)),
    "gemma3_text": (30, lambda: newer("Gemma3", config="Gemma3Text", head_dim=8, sliding_window=5, num_hidden_layers=3,
                                      query_pre_attn_scalar=10, pad_token_id=0, tie_word_embeddings=True,
                                      sliding_window_pattern=2, rope_parameters=GEMMA3)),
    "gpt_neox": (31, neox),
    "gpt_neox_serial": (32, lambda: neox(use_parallel_residual=False, attention_bias=False, tie_word_embeddings=True,
                                         num_hidden_layers=1)),
    "smollm3": (33, lambda: newer("SmolLM3", num_hidden_layers=3, no_rope_layer_interval=2, use_sliding_window=True,
                                  sliding_window=5)),
    "granite": (34, lambda: newer("Granite", embedding_multiplier=3.0, attention_multiplier=0.3, logits_scaling=0.7,
                                  residual_multiplier=0.6)),
}


def randomise(model, generator):
    """Weights large enough that every part of the model affects the loss."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            is_norm = "ln_" in name or "norm" in name
            if is_norm and name.endswith("weight"):
                parameter.copy_(1 + 0.2 * noise)
            elif parameter.dim() == 1:
                parameter.copy_(0.1 * noise)
            else:
                parameter.copy_(0.25 * noise)


def published_name(name):
    """The published gpt2 files name tensors without the wrapper's prefix."""
    return name.removeprefix("transformer.")


def record(model, folder, generator):
    folder.mkdir(parents=True, exist_ok=True)
    randomise(model, generator)
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    parameters = {published_name(n) if type(model).__name__.startswith("GPT2") else n: p
                  for n, p in model.named_parameters()}
    save_file({n: p.detach().clone() for n, p in parameters.items()}, folder / "model.safetensors",
              metadata={"format": "pt"})

    model.double().train()
    tokens = torch.randint(0, VOCABULARY, (BATCH, SEQUENCE), generator=generator)
    targets = torch.randint(0, VOCABULARY, (BATCH, SEQUENCE), generator=generator)
    if model.config.pad_token_id is not None:  # lookups give its embedding no gradient
        tokens[0, 2] = tokens[1, 9] = model.config.pad_token_id
    targets[0, 3] = targets[0, 15] = targets[1, 0] = targets[1, 7] = targets[1, 8] = -100
    logits = model(input_ids=tokens).logits
    loss = torch.nn.functional.cross_entropy(
        logits.reshape(-1, VOCABULARY), targets.reshape(-1), ignore_index=-100, reduction="sum")
    loss.backward()
    expected = {
        "tokens": tokens.int(), "targets": targets.int(), "logits": logits.detach().contiguous(),
        "loss_sum": loss.detach(), "token_count": (targets != -100).sum().int()}
    expected |= {"gradient." + n: p.grad for n, p in parameters.items()}
    save_file(expected, folder / "expected.safetensors")
    print(f"{folder.name}: {sum(p.numel() for p in parameters.values())} parameters in {len(parameters)} tensors, "
          f"loss sum {loss.item():.12f} over {expected['token_count'].item()} tokens")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}")
    for name, (seed, make) in MODELS.items():
        if seed is not None:
            generator = torch.Generator().manual_seed(seed)
        record(make(), pathlib.Path(sys.argv[1]) / name, generator)


if __name__ == "__main__":
    main()
