#!/usr/bin/env python3
"""Makes a tokenizer like those of Llama 2, Mistral and Gemma (fallback/): spaces are U+2581, text without a piece
becomes a token for each byte, and decoding drops the space before the first word.

    python3 make_fallback.py   (in this folder, after make_tokenizers.py; needs tokenizers 0.23)
"""

import json
import pathlib

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, trainers

documents = json.loads(pathlib.Path("expected.json").read_text())["documents"]
normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])

trained = Tokenizer(models.BPE())
trained.normalizer = normalizer
trained.train_from_iterator(documents[:3], trainers.BpeTrainer(vocab_size=120, show_progress=False))
model = json.loads(trained.to_str())["model"]

names = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
pieces = names + sorted(model["vocab"], key=model["vocab"].get)
tokenizer = Tokenizer(models.BPE({piece: number for number, piece in enumerate(pieces)},
                                 [tuple(merge) for merge in model["merges"]], unk_token="<unk>", byte_fallback=True, fuse_unk=True))
tokenizer.normalizer = normalizer
tokenizer.add_special_tokens([AddedToken(name, special=True) for name in names[:3]])
tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                       decoders.Strip(" ", 1, 0)])
pathlib.Path("fallback").mkdir(exist_ok=True)
tokenizer.save("fallback/tokenizer.json", pretty=False)
