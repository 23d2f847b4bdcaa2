#!/usr/bin/env python3
"""Makes the checkpoint and the tokenizer of docs/finetuning.md, such as a user would get from elsewhere.

    make_student.py FOLDER

Needs torch, transformers and tokenizers, but not dtc. A byte-level BPE of 512 entries and a llama of two layers are
trained on the licences that every Debian system has; the weights are saved in bf16.
"""

import gzip
import json
import pathlib
import sys

import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

VOCABULARY, LENGTH, ROWS, STEPS = 512, 128, 16, 600
END = "<|endoftext|>"


def licences():
    files = sorted(path for path in pathlib.Path("/usr/share/common-licenses").iterdir() if not path.is_symlink())
    return [file.read_text(errors="replace") for file in files]


def make_tokenizer(texts):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=[END], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False))
    return tokenizer


def main():
    folder = pathlib.Path(sys.argv[1])
    torch.manual_seed(22)
    torch.set_num_threads(1)
    texts = licences()
    jargon = gzip.open("/usr/share/dictd/jargon.dict.dz").read().decode(errors="replace")
    tokenizer = make_tokenizer(texts + [jargon])
    end = tokenizer.token_to_id(END)
    ids = torch.tensor([token for text in texts for token in tokenizer.encode(text).ids + [end]])
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=64, intermediate_size=160, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=256, tie_word_embeddings=True, bos_token_id=end,
        eos_token_id=end, pad_token_id=None))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, STEPS)
    for step in range(STEPS):
        begins = torch.randint(len(ids) - LENGTH - 1, (ROWS,))
        rows = torch.stack([ids[begin:begin + LENGTH] for begin in begins])
        loss = model(input_ids=rows, labels=rows).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step(), schedule.step(), optimizer.zero_grad()
        if step % 100 == 99:
            print(f"step {step + 1}: loss {loss.item():.3f}", flush=True)
    model.to(torch.bfloat16).save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END, "bos_token": END}, indent=2) + "\n")


if __name__ == "__main__":
    main()
