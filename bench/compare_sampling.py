#!/usr/bin/env python3
"""Tokens per second of GPT-2 124M with a cache on one thread: dtc, transformers, and the rate of reading memory.

    taskset -c 0 bench/compare_sampling.py --torch-python PYTHON [--build build] [--rounds 5] [--tokens 96]

Weights are random, in f32 and in bf16. A prompt of 32 tokens is continued greedily; the tokens after the first are
timed. dtc and transformers (its dynamic cache, scaled_dot_product_attention) take turns. A token reads every weight
once except the table of positions, so no token takes less time than one thread needs to read these bytes from memory;
bench/gemv.cpp measures that rate in each round. Prints medians, the share of the bound and the ratio to the peer, and
fails below 0.7 of the bound, 1.2 times the peer in f32 or 2 times in bf16. PYTHON has torch and transformers.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from arguments import comparison

PROMPT = list(range(1000, 1032))
LEAST_SHARE, LEAST_RATIO = 0.7, {"f32": 1.2, "bf16": 2.0}


def peer_rate(directory, kind, count):
    """Tokens per second of transformers, in this process."""
    import time

    import torch
    import transformers
    transformers.logging.set_verbosity_error()
    torch.set_num_threads(1)
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[kind]
    model = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=dtype).eval()
    prompt = torch.tensor([PROMPT])

    def seconds(new):
        begin = time.perf_counter()
        with torch.inference_mode():
            model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False, min_new_tokens=new,
                           max_new_tokens=new, pad_token_id=0)
        return time.perf_counter() - begin

    seconds(2)
    return (count - 1) / (seconds(count) - seconds(1))


def make_model(directory):
    import torch
    import transformers
    torch.manual_seed(1)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config())
    model.save_pretrained(directory)


def dtc_rate(build, program, count):
    answer = subprocess.run([build / "bin/dtc", "sample", program, "--prompt-ids", ",".join(map(str, PROMPT)), "--max-tokens", str(count),
                             "--threads", "1", "--json"], check=True, stdout=subprocess.PIPE, text=True).stdout
    return json.loads(answer.splitlines()[-1])["tokens_per_second"]


def reading_rate(build):
    """Bytes per second of one thread."""
    lines = subprocess.run([build / "bench/gemv", "1"], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    return statistics.median(float(line.split(",")[4]) for line in lines) * 1e9


def weight_bytes(directory, kind):
    """The bytes that a token reads: the embedding is also the output projection, and only one row of the positions is
    read."""
    config = json.loads((directory / "config.json").read_text())
    embed, layers, vocabulary = config["n_embd"], config["n_layer"], config["vocab_size"]
    return (vocabulary * embed + layers * 12 * embed * embed) * {"f32": 4, "bf16": 2}[kind]


def main():
    if sys.argv[1:2] == ["--peer"]:
        return print(peer_rate(sys.argv[2], sys.argv[3], int(sys.argv[4])))
    if sys.argv[1:2] == ["--make"]:
        return make_model(sys.argv[2])
    parser = comparison(__doc__, rounds=5)
    parser.add_argument("--tokens", type=int, default=96)
    args = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    subprocess.run(["cmake", "--build", args.build, "--target", "gemv", "dtc", "dtc-compile", "dtc-program"], check=True,
                   stdout=subprocess.DEVNULL)
    own = [args.torch_python, __file__]
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        subprocess.run([*own, "--make", folder / "gpt2"], check=True)
        print("| weights | dtc, tokens/s | of the bound | share | transformers | dtc / transformers |\n|---|---|---|---|---|---|")
        for kind in LEAST_RATIO:
            program = folder / kind
            setting = ["--set", "compute=bf16"] if kind == "bf16" else []
            subprocess.run([args.build / "bin/dtc", "compile", folder / "gpt2", "--generate", str(len(PROMPT) + args.tokens), *setting, "-o",
                            program], check=True, stdout=subprocess.DEVNULL)
            rounds = []
            for _ in range(args.rounds):
                bound = reading_rate(args.build) / weight_bytes(folder / "gpt2", kind)
                ours = dtc_rate(args.build, program, args.tokens)
                peer = float(subprocess.run([*own, "--peer", folder / "gpt2", kind, str(args.tokens)], check=True,
                                            stdout=subprocess.PIPE, text=True).stdout)
                rounds.append((ours, bound, ours / bound, peer, ours / peer))
            ours, bound, share, peer, ratio = map(statistics.median, zip(*rounds))
            print(f"| {kind} | {ours:.1f} | {bound:.1f} | {share:.2f} | {peer:.1f} | {ratio:.2f} |", flush=True)
            if share < LEAST_SHARE or ratio < LEAST_RATIO[kind]:
                failures.append(f"{kind}: {share:.2f} of the bound, {ratio:.2f} times transformers")
    return "; ".join(failures) or 0


if __name__ == "__main__":
    sys.exit(main())
