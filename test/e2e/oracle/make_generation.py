#!/usr/bin/env python3
"""Records how transformers continues prompts: the oracle for dtc sample.

    make_generation.py BUILD FILE      writes FILE, generation.json next to this script, for all recorded models

Needs torch and transformers, and in BUILD what ../driver.py looks for; tests need only the output. Weights are those of
the folders next to this file, for POSITIONS positions (write_longer of ../config_cases.py). For each model, prompts and
the 32 tokens with which transformers' generate continues them, greedily, in f64. Prompts are drawn until the likeliest
token is ahead of the next by MARGIN everywhere, so that f32 chooses the same. The last prompt is several windows long
where the model has windows.
"""

import json
import os
import pathlib
import sys
import tempfile

import torch
import transformers
from make_oracle import MODELS

HERE = pathlib.Path(__file__).resolve().parent
NEW, MARGIN = 32, 1e-3
LENGTHS = [5, 1, 14]
POSITIONS = 48


def continue_prompt(model, prompt, new):
    """The new tokens, and by how much each was ahead."""
    answer = model.generate(input_ids=prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=new, do_sample=False,
                            eos_token_id=None, pad_token_id=0, output_logits=True, return_dict_in_generate=True)
    best = torch.stack(answer.logits).topk(2).values
    return answer.sequences[0, prompt.shape[1]:].tolist(), (best[..., 0] - best[..., 1]).min().item()


def record(name, folder, generator):
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager").double().eval()
    model.generation_config.eos_token_id = None
    recorded = []
    for length in LENGTHS:
        margin = 0
        while margin < MARGIN:
            prompt = torch.randint(0, model.config.vocab_size, (1, length), generator=generator)
            tokens, margin = continue_prompt(model, prompt, NEW)
        recorded.append({"prompt": prompt[0].tolist(), "tokens": tokens})
        print(f"{name}: {len(tokens)} tokens after {length}, {len(set(tokens))} different, ahead by {margin:.4f}")
    return recorded


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    os.environ |= {"DTC_BIN": f"{sys.argv[1]}/bin", "DTC_SOURCE": str(HERE.parents[2])}
    sys.path.insert(0, str(HERE.parent))
    from config_cases import write_longer
    print(f"torch {torch.__version__}, transformers {transformers.__version__}")
    generator = torch.Generator().manual_seed(51)
    recorded = {}
    with tempfile.TemporaryDirectory() as work:
        for name in MODELS:
            folder = pathlib.Path(work) / name
            write_longer(folder, HERE / name, POSITIONS)
            recorded[name] = record(name, folder, generator)
    pathlib.Path(sys.argv[2]).write_text(
        "{\n" + ",\n".join(f'"{name}": {json.dumps(cases)}' for name, cases in recorded.items()) + "\n}\n")


if __name__ == "__main__":
    main()
