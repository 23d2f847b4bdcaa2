#!/usr/bin/env python3
"""How fast `dtc data pack` tokenizes, compared with the tokenizers package itself.

    compare_pack.py --text FOLDER [FOLDER ...] [--build build] [--megabytes 100] [--rounds 3]

Documents are the source files and texts in the folders, in the order of their paths, as lines of JSON. A byte-level BPE
with 50,257 entries is trained on them. Then, alternately, as separate processes on two cores:

    dtc      dtc data pack --tokenizer
    batch    tokenizers' encode_batch on batches of 1,000 documents, the end of each appended, the ids written as 16 bits
    fast     the same with encode_batch_fast, which computes no offsets

The three must write the same tokens. Prints each wall time, with the CPU time in brackets, which other work on the
machine affects less; medians; and the peak memory of each.
"""

import argparse
import array
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

from compare_gpt2_step import ROOT

SUFFIXES = {".py", ".pyi", ".md", ".rst", ".txt", ".h", ".hpp", ".c", ".cpp"}
END = "<|endoftext|>"


def write_corpus(path, folders, size):
    documents = total = 0
    with open(path, "w") as file:
        for folder in folders:
            for text in sorted(folder.rglob("*")):
                if text.suffix not in SUFFIXES or not text.is_file() or text.stat().st_size > 1_000_000:
                    continue
                try:
                    content = text.read_text()
                except UnicodeDecodeError:
                    continue
                if not content:
                    continue
                file.write(json.dumps({"text": content}) + "\n")
                documents, total = documents + 1, total + len(content.encode())
                if total >= size:
                    return documents, total
    return documents, total


def texts_of(path):
    with open(path) as file:
        for line in file:
            yield json.loads(line)["text"]


def train(corpus, path):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts_of(corpus), trainers.BpeTrainer(
        vocab_size=50257, special_tokens=[END], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tokenizer.save(str(path))
    return tokenizer.get_vocab_size()


def run_peer(method, tokenizer, corpus, output):
    """Runs in a process of its own."""
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(tokenizer)
    encode, end = getattr(tokenizer, method), tokenizer.token_to_id(END)
    with open(output, "wb") as file:
        def flush(texts):
            ids = array.array("H")
            for encoding in encode(texts):
                ids.extend(encoding.ids)
                ids.append(end)
            file.write(ids.tobytes())
        texts = []
        for text in texts_of(corpus):
            texts.append(text)
            if len(texts) == 1000:
                flush(texts)
                texts = []
        flush(texts)


def timed(command):
    """Seconds, CPU seconds, and the peak memory of its processes, each alone, in MB."""
    begin, before = time.monotonic(), sum(os.times()[2:4])
    job = subprocess.Popen(["taskset", "-c", "0,1", *map(str, command)], stdout=subprocess.DEVNULL)
    peak = {}
    while job.poll() is None:
        for pid in [job.pid, *children_of(job.pid)]:
            try:
                status = pathlib.Path(f"/proc/{pid}/status").read_text()
            except OSError:
                continue
            peak[pid] = max([peak.get(pid, 0), *(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))])
        time.sleep(0.02)
    if job.returncode:
        sys.exit(f"{command} failed")
    return time.monotonic() - begin, sum(os.times()[2:4]) - before, sum(peak.values()) / 1000


def children_of(pid):
    try:
        return [int(word) for word in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def main():
    if sys.argv[1:2] == ["--peer"]:
        return run_peer(*sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=pathlib.Path, nargs="+", required=True)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    os.environ.pop("TOKENIZERS_PARALLELISM", None)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        corpus, tokenizer = folder / "corpus.jsonl", folder / "tokenizer.json"
        documents, size = write_corpus(corpus, args.text, args.megabytes * 1_000_000)
        print(f"{documents} documents of {size / 1e6:.1f} MB; a BPE of {train(corpus, tokenizer)} entries", flush=True)
        peer = [sys.executable, __file__, "--peer"]
        commands = {"dtc": [args.build / "bin/dtc", "data", "pack", "--tokenizer", tokenizer, corpus, "-o", folder / "dtc.bin",
                            "--format", "nanogpt"],
                    "batch": [*peer, "encode_batch", tokenizer, corpus, folder / "batch.bin"],
                    "fast": [*peer, "encode_batch_fast", tokenizer, corpus, folder / "fast.bin"]}
        times, work, peaks = {name: [] for name in commands}, {name: [] for name in commands}, {name: 0 for name in commands}
        for number in range(args.rounds):
            for name, command in commands.items():
                seconds, processor, peak = timed(command)
                times[name].append(seconds)
                work[name].append(processor)
                peaks[name] = max(peaks[name], peak)
            print(f"round {number + 1}: " + ", ".join(f"{name} {times[name][-1]:.2f} s ({work[name][-1]:.2f} s)" for name in commands)
                  + f"; load {os.getloadavg()[0]:.1f}", flush=True)
        written = {name: (folder / f"{name}.bin").read_bytes() for name in commands}
        if len(set(written.values())) != 1:
            sys.exit("they wrote different tokens")
        ours, our_work = statistics.median(times["dtc"]), statistics.median(work["dtc"])
        for name in commands:
            median, processor = statistics.median(times[name]), statistics.median(work[name])
            print(f"{name}: {median:.2f} s, {size / 1e6 / median:.1f} MB/s, {processor:.2f} s of processors, {peaks[name]:.0f} MB "
                  f"of memory; speed of dtc / this {median / ours:.2f}, by processors {processor / our_work:.2f}")
        print(f"{len(written['dtc']) // 2} tokens")


if __name__ == "__main__":
    main()
