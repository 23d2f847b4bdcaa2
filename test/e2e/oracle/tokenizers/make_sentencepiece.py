#!/usr/bin/env python3
"""Trains two small models of sentencepiece and records the tokens that its Python package makes of documents with them
(sentencepiece.json). llama.model is a BPE that falls back to bytes, t5.model a unigram model with different numbers for
its control pieces.

    python3 make_sentencepiece.py   (in this folder, after make_tokenizers.py; needs sentencepiece 0.2)
"""

import json
import pathlib

import sentencepiece

DOCUMENTS = json.loads(pathlib.Path("expected.json").read_text())["documents"]
SETTINGS = {"llama": dict(model_type="bpe", vocab_size=340, byte_fallback=True),
            "t5": dict(model_type="unigram", vocab_size=80, pad_id=0, eos_id=1, unk_id=2, bos_id=-1)}

recorded = {}
for name, settings in SETTINGS.items():
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(DOCUMENTS), model_prefix=name, character_coverage=1,
                                             normalization_rule_name="identity", minloglevel=2, **settings)
    pathlib.Path(f"{name}.vocab").unlink()
    model = sentencepiece.SentencePieceProcessor(f"{name}.model")
    recorded[name] = [model.encode(document) + [model.eos_id()] for document in DOCUMENTS]
pathlib.Path("sentencepiece.json").write_text(json.dumps(recorded) + "\n")
