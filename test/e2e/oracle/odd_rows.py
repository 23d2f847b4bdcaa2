"""Small gpt2 models with rows of 16k + 1 elements, whose logits are around a number, as in pretrained models.

Shared by make_odd_rows.py, which records PyTorch's results for them, and test/e2e/odd_rows_run_test.py: the weights are
drawn here so that none need to be stored.
"""

import random

CENTRES = (-30, 0, 30)
BATCHES = 4  # one step each, on its own file; a single step's deviation may be small by chance
SAMPLES, SEQUENCE, EMBED = 4, 16, 8
MODELS = {  # name: vocabulary, inner dimension
    "gpt2_vocabulary": (50257, 32),
    "short_rows": (257, 33),
}


def config(name):
    vocabulary, inner = MODELS[name]
    return {"model_type": "gpt2", "vocab_size": vocabulary, "n_positions": SEQUENCE, "n_embd": EMBED, "n_layer": 1,
            "n_head": 2, "n_inner": inner, "bos_token_id": 0, "eos_token_id": 0, "attn_pdrop": 0.0,
            "embd_pdrop": 0.0, "resid_pdrop": 0.0}


def weights(name, centre):
    """{tensor: (shape, values)}. All tokens' embeddings have 1 in the first dimension, and the last norm adds `centre`
    there, which moves all logits by that much."""
    vocabulary, inner = MODELS[name]
    source = random.Random(5)

    def normal(*shape, deviation=0.2):
        count = 1
        for size in shape:
            count *= size
        return list(shape), [source.gauss(0, deviation) for _ in range(count)]

    def constant(value, size):
        return [size], [float(value)] * size

    wte = normal(vocabulary, EMBED)
    wte[1][::EMBED] = [1 + 0.05 * value for value in wte[1][::EMBED]]
    tensors = {"wte.weight": wte, "wpe.weight": normal(SEQUENCE, EMBED)}
    for norm in ("h.0.ln_1", "h.0.ln_2", "ln_f"):
        tensors[norm + ".weight"] = constant(1, EMBED)
        tensors[norm + ".bias"] = constant(0, EMBED)
    tensors["ln_f.bias"][1][0] = float(centre)
    for layer, rows, columns in (("attn.c_attn", EMBED, 3 * EMBED), ("attn.c_proj", EMBED, EMBED),
                                 ("mlp.c_fc", EMBED, inner), ("mlp.c_proj", inner, EMBED)):
        tensors[f"h.0.{layer}.weight"] = normal(rows, columns)
        tensors[f"h.0.{layer}.bias"] = normal(columns)
    return tensors


def tokens(name, batch):
    """Exactly one step's samples, so that their order makes no difference."""
    source = random.Random(100 + batch)
    return [source.randrange(MODELS[name][0]) for _ in range(SAMPLES * SEQUENCE + 1)]
