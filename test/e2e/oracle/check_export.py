#!/usr/bin/env python3
"""Checks that transformers loads what dtc exports, and records the logits that it then computes.

    check_export.py BIN_DIRECTORY DIRECTORY      writes DIRECTORY/exported_MODEL/ for all of MODELS

BIN_DIRECTORY holds dtc. Needs torch, transformers and safetensors; test/e2e/export_run_test.py needs only the output,
which is stored next to it. Starting from the recorded models, dtc trains a few steps on four ranks (dp=2,tp=2); the
checkpoint must load without a missing, unexpected or misshapen tensor. Each folder holds
  config.json, model.safetensors   the checkpoint, as dtc wrote it
  expected.safetensors             tokens [3, 17] i32, random; logits [3, 16, vocabulary] f64 that transformers computes
                                   in f64 from the checkpoint for all but the last token of each row
Then `dtc export` writes each in bf16 and several files, which transformers must load as it would its own.
"""

import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

import torch
import transformers
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).resolve().parent
WINDOWS, LENGTH, VOCABULARY = 3, 16, 61
MODELS = ["gpt2", "llama", "mistral", "qwen2", "qwen3", "olmo2", "phi3", "gemma2", "gemma3_text", "gpt_neox", "smollm3",
          "granite"]


def train(dtc, model, work):
    """The folder of the checkpoint after 20 steps on random tokens."""
    generator = torch.Generator().manual_seed(3)
    tokens = torch.randint(0, VOCABULARY, (2000,), generator=generator).tolist()
    (work / "tokens").write_bytes(struct.pack("<2000H", *tokens))
    settings = ["steps=20", "global_batch=4", f"sequence_length={LENGTH}", "learning_rate=1e-3",
                "validation_fraction=0"]
    subprocess.run([dtc, "compile", HERE / model, "--mesh", "dp=2,tp=2", "-o", work / "program"]
                   + [word for setting in settings for word in ("--set", setting)], check=True)
    subprocess.run([dtc, "run", work / "program", "--data", work / "tokens", "--data-format", "nanogpt", "--out", work / "out"], check=True)
    return work / "out/checkpoints/step-000020"


def load(folder):
    """The model, if the tensors of the file are exactly those of the model."""
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        folder, output_loading_info=True, dtype=torch.float32, attn_implementation="eager")
    wrong = {problem: list(names) for problem, names in info.items() if names}
    if wrong:
        sys.exit(f"{folder}: transformers reports {wrong}")
    return model.double().eval()


def record(dtc, model, folder):
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as work:
        checkpoint = train(dtc, model, pathlib.Path(work))
        for name in ["config.json", "model.safetensors"]:
            shutil.copy(checkpoint / name, folder)
    tokens = torch.randint(0, VOCABULARY, (WINDOWS, LENGTH + 1), generator=torch.Generator().manual_seed(4))
    with torch.no_grad():
        logits = load(folder)(input_ids=tokens[:, :-1]).logits
    save_file({"tokens": tokens.int(), "logits": logits.contiguous()}, folder / "expected.safetensors")
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    print(f"{folder.name}: loads; loss {loss.item():.9f} over {tokens[:, 1:].numel()} tokens")


def check_narrow(dtc, folder):
    """transformers takes type and files from what `dtc export` wrote."""
    with tempfile.TemporaryDirectory() as work:
        narrow = pathlib.Path(work) / "narrow"
        subprocess.run([dtc, "export", folder, "-o", narrow, "--dtype", "bf16", "--shard-size", "3kB"], check=True)
        files = len(list(narrow.glob("model-*.safetensors")))
        model, info = transformers.AutoModelForCausalLM.from_pretrained(narrow, output_loading_info=True)
        wrong = {problem: list(names) for problem, names in info.items() if names}
        expected = load(folder).to(torch.bfloat16).state_dict()
        if wrong or model.dtype != torch.bfloat16 or files < 2:
            sys.exit(f"{folder}: exported as bf16: {wrong}, {model.dtype}, {files} files")
        for name, tensor in model.state_dict().items():
            if not torch.equal(tensor, expected[name]):
                sys.exit(f"{folder}: exported as bf16: {name} differs")
    print(f"{folder.name}: loads as bf16 from {files} files")


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    dtc, root = pathlib.Path(sys.argv[1]).resolve() / "dtc", pathlib.Path(sys.argv[2])
    print(f"torch {torch.__version__}, transformers {transformers.__version__}")
    for model in MODELS:
        record(dtc, model, root / f"exported_{model}")
        check_narrow(dtc, root / f"exported_{model}")


if __name__ == "__main__":
    main()
