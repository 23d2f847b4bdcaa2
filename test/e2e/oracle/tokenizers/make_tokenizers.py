#!/usr/bin/env python3
"""Makes two tokenizers and records the tokens that Hugging Face's tokenizers make of documents with them
(expected.json).

gpt2style: a byte-level BPE with <|endoftext|>, which tokenizer_config.json names as the end. llamastyle: its special
tokens have higher numbers than others, it puts <s> before each document, and it asks for truncation to 8 tokens and for
padding, which must not happen to a corpus.

    python3 make_tokenizers.py   (in this folder; needs tokenizers 0.23)
"""

import json
import pathlib

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

DOCUMENTS = [
    "The house is small. The house is old, and the door of the house is open.",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich.",
    "def add(a, b):\n    return a + b\n\n\nprint(add(1, 22))\n",
    "x",
    "  two spaces before, a tab\tand a newline\nwithin",
    "日本語 and emoji 🙂🙃, and a special token in a text: <|endoftext|> it is one.",
    "The end of the documents is near. The end is here.",
]


def train(vocabulary, specials):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(DOCUMENTS, trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=specials,
                                                                 initial_alphabet=alphabet, show_progress=False))
    return tokenizer


def save(name, tokenizer, **files):
    folder = pathlib.Path(name)
    folder.mkdir(exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    for file, content in files.items():
        (folder / f"{file}.json").write_text(json.dumps(content, indent=1) + "\n")


def encode(tokenizer, end):
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return [encoding.ids + [tokenizer.token_to_id(end)] for encoding in tokenizer.encode_batch(DOCUMENTS)]


gpt2 = train(330, ["<|endoftext|>"])
save("gpt2style", gpt2, tokenizer_config={"eos_token": {"__type": "AddedToken", "content": "<|endoftext|>"}})

llama = train(300, [])
llama.add_special_tokens([AddedToken("<s>", special=True), AddedToken("</s>", special=True)])
llama.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", llama.token_to_id("<s>"))])
llama.enable_truncation(8)
llama.enable_padding(length=100)
save("llamastyle", llama, special_tokens_map={"eos_token": "</s>"})

expected = {"documents": DOCUMENTS, "gpt2style": encode(gpt2, "<|endoftext|>"), "llamastyle": encode(llama, "</s>")}
pathlib.Path("expected.json").write_text(json.dumps(expected) + "\n")
