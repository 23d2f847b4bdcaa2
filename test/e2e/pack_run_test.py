#!/usr/bin/env python3
"""Texts become the tokens that Hugging Face's tokenizers make of them; errors name the place."""

import gzip
import json
import os
import shutil
import struct
import unittest

from driver import SOURCE, DriverTest

ORACLE = SOURCE / "test/e2e/oracle/tokenizers"
EXPECTED = json.loads((ORACLE / "expected.json").read_text())
DOCUMENTS = EXPECTED["documents"]


def flat(documents):
    return [token for document in documents for token in document]


def read_llmc(path):
    data = path.read_bytes()
    magic, version, count = struct.unpack("<3i", data[:12])
    code = {(20240520, 1): "H", (20240801, 7): "I"}[magic, version]
    return list(struct.unpack(f"<{count}{code}", data[1024:]))


def read_megatron(path):
    """Documents, each of one sequence."""
    index = path.with_suffix(".idx").read_bytes()
    magic, version, code, sequences, boundaries = struct.unpack("<9sQBQQ", index[:34])
    assert (magic, version, boundaries) == (b"MMIDIDX\0\0", 1, sequences + 1)
    numbers = struct.unpack(f"<{sequences}i{sequences}q{boundaries}q", index[34:])
    lengths, pointers, documents = numbers[:sequences], numbers[sequences:2 * sequences], numbers[2 * sequences:]
    assert list(documents) == list(range(boundaries))
    kind, width = {8: ("H", 2), 4: ("i", 4)}[code]
    data = path.read_bytes()
    return [list(struct.unpack_from(f"<{length}{kind}", data, pointer)) for length, pointer in zip(lengths, pointers)]


class PackTest(DriverTest):
    def lines(self, name, objects):
        path = self.directory / name
        text = "".join(json.dumps(value) + "\n" for value in objects)
        path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
        return path

    def pack(self, *arguments, tokenizer="gpt2style", **options):
        output = self.directory / "packed.bin"
        self.dtc("data", "pack", "--tokenizer", ORACLE / tokenizer, *arguments, "-o", output, **options)
        return output

    def refuse(self, *arguments, tokenizer="gpt2style", **options):
        """The end of packing, which takes as long as Python's imports."""
        message = self.refused("data", "pack", "--tokenizer", ORACLE / tokenizer, *arguments, "-o", self.directory / "none",
                               within=30, **options)
        self.assertFalse((self.directory / "none").exists())
        return message


class Pack(PackTest):
    def test_tokens_are_those_of_tokenizers(self):
        lines = self.lines("documents.jsonl", [{"text": text, "id": 7} for text in DOCUMENTS])
        for name in "gpt2style", "llamastyle":
            self.assertEqual(read_llmc(self.pack(lines, tokenizer=name)), flat(EXPECTED[name]), name)
        packed = self.lines("documents.jsonl.gz", [{"text": text} for text in DOCUMENTS])
        self.assertEqual(read_llmc(self.pack(packed)), flat(EXPECTED["gpt2style"]))
        self.assertEqual(read_llmc(self.pack(lines, tokenizer="gpt2style/tokenizer.json")), flat(EXPECTED["gpt2style"]))

    def test_every_format(self):
        lines = self.lines("documents.jsonl", [{"body": text} for text in DOCUMENTS])
        expected = EXPECTED["gpt2style"]
        self.assertEqual(read_megatron(self.pack(lines, "--field", "body", "--format", "megatron")), expected)
        (self.directory / "packed.idx").unlink()
        bare = self.pack(lines, "--field", "body", "--format", "nanogpt").read_bytes()
        self.assertEqual(list(struct.unpack(f"<{len(bare) // 2}H", bare)), flat(expected))

    # Many batches, each with documents of all lengths.
    def test_the_order_is_kept_however_much_there_is(self):
        lines = self.lines("many.jsonl", [{"text": text} for _ in range(9000) for text in DOCUMENTS])
        # Without assertEqual, which would search for the differences of two million numbers.
        self.assertTrue(read_llmc(self.pack(lines)) == 9000 * flat(EXPECTED["gpt2style"]))

    def test_a_text_is_one_document_or_several(self):
        whole, parts = self.directory / "whole.txt", self.directory / "parts.txt"
        whole.write_text(DOCUMENTS[2])
        chosen = [0, 1, 6]
        parts.write_text("\n \n" + "\n\n\t\n".join(DOCUMENTS[index] for index in chosen) + "\n")
        expected = EXPECTED["gpt2style"]
        self.assertEqual(read_llmc(self.pack(whole)), expected[2])
        self.assertEqual(read_llmc(self.pack(parts, "--documents", "blank-line")), flat(expected[i] for i in chosen))

    def test_what_ends_a_document(self):
        lines = self.lines("documents.jsonl", [{"text": text} for text in DOCUMENTS])
        expected = EXPECTED["gpt2style"]
        self.assertEqual(read_llmc(self.pack(lines, "--end-of-document", "none")), flat(d[:-1] for d in expected))
        bang = read_llmc(self.pack(self.lines("a.jsonl", [{"text": "!"}]), "--end-of-document", "none"))
        self.assertEqual(read_llmc(self.pack(lines, "--end-of-document", "!")), flat(d[:-1] + bang for d in expected))
        # The output exists already.
        ended = self.lines("ended.jsonl", [{"text": DOCUMENTS[0] + "<|endoftext|>"}])
        self.assertEqual(read_llmc(self.pack(ended)), expected[0])
        self.assertIn("--end-of-document: 'nothing' is no token of", self.refuse(lines, "--end-of-document", "nothing"))
        lone = self.make_folder("lone")
        shutil.copy(ORACLE / "llamastyle/tokenizer.json", lone)
        self.assertEqual(read_llmc(self.pack(lines, tokenizer=lone)), flat(EXPECTED["llamastyle"]), "</s> is common")
        text = (lone / "tokenizer.json").read_text()
        (lone / "tokenizer.json").write_text(text.replace("</s>", "<fin>"))
        self.assertIn("give --end-of-document TOKEN, or none", self.refuse(lines, tokenizer=lone))

    def test_empty_documents_are_left_out(self):
        lines = self.lines("some.jsonl", [{"text": ""}, {"text": DOCUMENTS[0]}, {"text": ""}])
        output = self.dtc("data", "pack", "--tokenizer", ORACLE / "gpt2style", lines, "-o", self.directory / "packed.bin", "--json")
        packed = json.loads(output)
        self.assertEqual((packed["documents"], packed["empty_documents"]), (1, 2))
        self.assertEqual(read_llmc(self.directory / "packed.bin"), EXPECTED["gpt2style"][0])

    def test_bytes_have_documents_too(self):
        lines = self.lines("documents.jsonl", [{"text": text} for text in DOCUMENTS])
        output = self.directory / "bytes.bin"
        self.dtc("data", "pack", lines, "--format", "megatron", "-o", output)
        self.assertEqual(read_megatron(output), [list(text.encode()) for text in DOCUMENTS])


CHAT = json.loads((ORACLE / "chat.json").read_text())


class Chat(PackTest):
    def packed(self, lines, *arguments, tokenizer):
        output = self.pack(lines, "--chat", *arguments, tokenizer=tokenizer)
        return read_llmc(output), list(output.with_name("packed.bin.mask").read_bytes())

    def test_tokens_and_answers_are_those_of_transformers(self):
        lines = self.lines("chat.json", CHAT["conversations"])
        for name in "chat_marked", "chat_plain":
            ids, mask = self.packed(lines, tokenizer=name)
            self.assertEqual(ids, flat(one["ids"] for one in CHAT[name]), name)
            self.assertEqual(mask, flat(one["mask"] for one in CHAT[name]), name)

    # Like models that think unless they are told not to.
    def test_a_prompt_that_goes_on_is_no_answer(self):
        folder = self.directory / "model"
        shutil.copytree(ORACLE / "chat_plain", folder)
        template = folder / "chat_template.jinja"
        changed = template.read_text().replace("assistant\\n' }}", "assistant\\n|nothing to think| ' }}")
        self.assertNotEqual(changed, template.read_text())
        template.write_text(changed)
        ids, mask = self.packed(self.lines("chat.jsonl", CHAT["conversations"]), tokenizer=folder)
        self.assertEqual(ids, flat(one["ids"] for one in CHAT["chat_plain"]))
        self.assertEqual(mask, flat(one["mask"] for one in CHAT["chat_plain"]))

    def test_the_conversation_may_be_in_another_field(self):
        lines = self.lines("chat.jsonl", [{"turns": CHAT["conversations"][0]["messages"]}])
        ids, mask = self.packed(lines, "--field", "turns", "--format", "llm.c", tokenizer="chat_marked")
        self.assertEqual((ids, mask), (CHAT["chat_marked"][0]["ids"], CHAT["chat_marked"][0]["mask"]))

    def test_a_token_may_end_conversations(self):
        lines = self.lines("chat.jsonl", CHAT["conversations"][:2])
        ids, mask = self.packed(lines, "--end-of-document", "<|endoftext|>", tokenizer="chat_marked")
        ends = [len(one["ids"]) for one in CHAT["chat_marked"]]
        self.assertEqual(ids[ends[0]], 0)
        self.assertEqual(len(ids), ends[0] + ends[1] + 2)
        self.assertEqual(mask[ends[0]], 0)

    # Three documents of a, b and c tokens in samples of n: a document that does not fit the rest begins the next
    # sample.
    def test_no_conversation_crosses_a_sample(self):
        documents = [one["ids"] for one in CHAT["chat_plain"]]
        masks = [one["mask"] for one in CHAT["chat_plain"]]
        longest = max(map(len, documents))
        lines = self.lines("chat.jsonl", CHAT["conversations"])
        total = sum(map(len, documents))
        for length in longest, longest + 7, total - 1, total:  # with one token too many for the last document, and without
            expected, marks = [], []
            for ids, mask in zip(documents, masks):
                if len(expected) % length + len(ids) > length:
                    marks += [0] * (-len(expected) % length)
                    expected += [0] * (-len(expected) % length)
                expected, marks = expected + ids, marks + mask
            marks += [0] * (-len(expected) % length + 1)
            expected += [0] * (-len(expected) % length + 1)
            self.assertEqual(self.packed(lines, "--sequence-length", length, tokenizer="chat_plain"), (expected, marks))
        where = max(range(len(documents)), key=lambda index: len(documents[index])) + 1
        message = self.refuse(lines, "--chat", "--sequence-length", longest - 1, tokenizer="chat_plain")
        self.assertIn(f"{lines}:{where}: this document has {longest} tokens, more than --sequence-length {longest - 1}", message)

    def test_texts_do_not_cross_a_sample_either(self):
        lines = self.lines("documents.jsonl", [{"text": text} for text in DOCUMENTS[:2]])
        first, second = EXPECTED["gpt2style"][:2]
        length = max(len(first), len(second))
        ids = read_llmc(self.pack(lines, "--sequence-length", length))
        self.assertEqual(ids[:len(first)], first)
        self.assertEqual(ids[length:length + len(second)], second)
        mask = (self.directory / "packed.bin.mask").read_bytes()
        self.assertEqual((sum(mask), len(mask)), (len(first) + len(second), 2 * length + 1))

    # The longest document first, to the sample with room for it whose room must hold the longest documents for an equal
    # share of the squares of all lengths (tools/dtc/text/Balance.h).
    def test_samples_cost_the_same_attention(self):
        documents = sorted(EXPECTED["gpt2style"], key=len)[-6:] + 2 * EXPECTED["gpt2style"]
        texts = [DOCUMENTS[EXPECTED["gpt2style"].index(tokens)] for tokens in documents]
        length = 2 * max(map(len, documents))
        count = -(-sum(map(len, documents)) // length)
        share = sum(len(tokens) ** 2 for tokens in documents) / count
        samples = [[] for _ in range(count)]
        room, cost = [length] * count, [0] * count
        for number in sorted(range(len(documents)), key=lambda number: -len(documents[number])):
            size = len(documents[number])
            fitting = [sample for sample in range(len(samples)) if room[sample] >= size]
            if not fitting:
                samples.append([]), room.append(length), cost.append(0)
                fitting = [len(samples) - 1]
            sample = min(fitting, key=lambda sample: ((cost[sample] - share) / room[sample], sample))
            samples[sample].append(number)
            room[sample] -= size
            cost[sample] += size * size
        expected = []
        for sample, left in zip(samples, room):
            expected += [documents[number] for number in sorted(sample)] + ([None] if left else [])  # None: padding
        lines = self.lines("documents.jsonl", [{"text": text} for text in texts])
        output = self.pack(lines, "--sequence-length", length, "--balance", "attention", "--format", "megatron")
        packed, marks, place = [], (self.directory / "packed.bin.mask").read_bytes(), 0
        for document in read_megatron(output):
            packed.append(document if marks[place] else None)
            place += len(document)
        self.assertEqual(packed[:-1], expected)  # the last is what the last window shares with the next
        self.assertGreater(count, 2)
        message = self.refused("data", "pack", "--tokenizer", ORACLE / "gpt2style", lines, "--balance", "attention",
                               "-o", self.directory / "none", code=2)
        self.assertIn("--balance attention: needs --sequence-length", message)

    def test_a_model_trains_on_answers(self):
        lines = self.lines("chat.jsonl", 20 * CHAT["conversations"])
        output = self.pack(lines, "--chat", "--sequence-length", 140, tokenizer="chat_marked")
        config = json.loads((SOURCE / "examples/gpt-small/config.json").read_text())
        for vocabulary, code, said in [(330, 0, r"\d+ of \d+ tokens count as targets, by the loss masks beside[^$]*step 2/2"),
                                       (300, 3, r"the token at position \d+ is 3\d\d, but the model's vocabulary has 300")]:
            model = self.directory / f"model{vocabulary}"
            model.mkdir()
            (model / "config.json").write_text(json.dumps({**config, "vocab_size": vocabulary, "n_positions": 140}))
            program = self.compile(f"program{vocabulary}", model, "--mesh", "dp=2", steps=2, global_batch=4, sequence_length=140)
            self.assertRegex(self.dtc("run", program, "--data", output, "--out", self.directory / f"out{vocabulary}",
                                      "--threads", 1, code=code), said)

    def test_a_conversation_that_is_none(self):
        good = {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}
        for line, said in [({"text": "a"}, "no field 'messages' in this line, which has 'text'; name the one with the conversation"),
                           ({"messages": "a"}, "field 'messages' is no list of messages"),
                           ({"messages": []}, "field 'messages' is no list of messages"),
                           ({"messages": [{"content": "a"}]}, "message 1 has no 'role'"),
                           ({"messages": [{"role": "user", "content": "a"}, "b"]}, "message 2 has no 'role'"),
                           ({"messages": [{"role": "fool", "content": "a"}]},
                            "the chat template refuses it: no such role: fool"),
                           ({"messages": [{"role": "user", "content": "\U000f5a02"}]}, "it has U+F5A01 or U+F5A02"),
                           ([1], "a JSON array where an object is needed")]:
            path = self.lines("bad.jsonl", [good, line])
            self.assertIn(f"{path}:2: {said}", self.refuse(path, "--chat", tokenizer="chat_marked"))
        self.assertIn("--chat: needs --tokenizer",
                      self.refused("data", "pack", path, "--chat", "-o", self.directory / "none", code=2))

    def test_templates_that_tell_no_answers(self):
        lines = self.lines("chat.jsonl", CHAT["conversations"])
        folder = self.directory / "model"
        shutil.copytree(ORACLE / "chat_plain", folder)
        template = folder / "chat_template.jinja"
        for text, said in [("{% for m in messages %}{{ m.content }}{% endfor %}", "does not look at roles ('role')"),
                           ("{% for m in messages %}{{ m.role }}", "is no template of Jinja's"),
                           ("{{ messages | length }}{% for m in messages %}{{ m.role + m.content }}{% endfor %}",
                            f"{lines}:1: where the answer in message 2 is cannot be told")]:
            template.write_text(text)
            self.assertIn(said, self.refuse(lines, "--chat", tokenizer=folder))
        template.unlink()
        self.assertIn("no chat template: neither", self.refuse(lines, "--chat", tokenizer=folder))


SENTENCEPIECE = json.loads((ORACLE / "sentencepiece.json").read_text())


class SentencePiece(PackTest):
    def test_tokens_are_those_of_the_library(self):
        lines = self.lines("documents.jsonl", [{"text": text} for text in DOCUMENTS])
        for name in "llama", "t5":
            self.assertEqual(read_llmc(self.pack(lines, tokenizer=name + ".model")), flat(SENTENCEPIECE[name]), name)
        folder = self.make_folder("model")
        shutil.copy(ORACLE / "t5.model", folder / "spiece.model")
        self.assertEqual(read_llmc(self.pack(lines, tokenizer=folder)), flat(SENTENCEPIECE["t5"]))

    def test_the_order_is_kept_however_much_there_is(self):
        lines = self.lines("many.jsonl", [{"text": text} for _ in range(5000) for text in DOCUMENTS])
        self.assertTrue(read_llmc(self.pack(lines, tokenizer="llama.model")) == 5000 * flat(SENTENCEPIECE["llama"]))

    def test_what_ends_a_document(self):
        lines = self.lines("documents.jsonl", [{"text": text} for text in DOCUMENTS])
        for end, token in [("none", []), ("<s>", [1]), ("auto", [2])]:
            self.assertEqual(read_llmc(self.pack(lines, "--end-of-document", end, tokenizer="llama.model")),
                             flat(document[:-1] + token for document in SENTENCEPIECE["llama"]))
        self.assertIn("--end-of-document: '<fin>' is not a piece of", self.refuse(lines, "--end-of-document", "<fin>",
                                                                               tokenizer="llama.model"))

    def test_what_cannot_be_tokenized(self):
        path = self.directory / "bad.txt"
        for text, at in [(b"ab\xff", 2), (b"\xc3", 0), (b"a\xed\xa0\x80", 1), (b"\xe0\x80\x80", 0), (b"\xf4\x90\x80\x80", 0)]:
            path.write_bytes(b"one\n\n" + text)
            self.assertIn(f"{path}:3: no UTF-8 at byte {at} of the document",
                          self.refuse(path, "--documents", "blank-line", tokenizer="llama.model"))
        none = self.directory / "none.model"
        none.write_text("nothing")
        path.write_text("a")
        self.assertIn("none.model' is not a sentencepiece model", self.refuse(path, tokenizer=none))
        self.assertIn("which has no chat template", self.refuse(path, "--chat", tokenizer="llama.model"))
        self.assertIn("its tokens go up to 339", self.refuse(path, "--vocabulary", 339, tokenizer="llama.model"))


class Refused(PackTest):
    def test_lines_of_json(self):
        good = json.dumps({"text": DOCUMENTS[0]})
        for line, said in [('{"txt": "a", "id": 3}', "no field 'text' in this line, which has 'id', 'txt'; name the one"),
                           ("{}", "no field 'text' in this line, which has none"),
                           ('{"text": 3}', "field 'text' is a JSON number; it must be a string"),
                           ('["text"]', "a JSON array where an object is needed"),
                           ('{"text": "a', "no JSON: parse error at line 1, column 12")]:
            path = self.directory / "bad.jsonl"
            path.write_text(f"{good}\n\n{line}\n{good}\n")
            for tokenizer in [["--tokenizer", ORACLE / "gpt2style"], []]:
                message = self.refused("data", "pack", path, *tokenizer, "-o", self.directory / "none", within=30)
                self.assertIn(f"{path}:3: {said}", message)

    def test_a_text_that_is_no_utf8(self):
        path = self.directory / "bad.txt"
        path.write_bytes(b"one\n\ntwo\nand \xff\n\nthree\n")
        self.assertIn(f"{path}:3: no UTF-8 at byte 8", self.refuse(path, "--documents", "blank-line"))

    def test_a_document_that_does_not_fit_memory(self):
        path = self.directory / "large.gz"
        path.write_bytes(gzip.compress(b"word " * (13 << 20)))
        message = self.refuse(path)
        self.assertIn(f"{path}:1: a document of more than 64 MiB; cut the text at its blank lines by --documents", message)

    def test_a_vocabulary_that_is_too_small(self):
        message = self.refuse(self.lines("a.jsonl", [{"text": "a"}]), "--vocabulary", 301, tokenizer="llamastyle")
        self.assertIn("its tokens go up to 301, but the model's vocabulary has 301 (--vocabulary)", message)
        self.pack(self.lines("a.jsonl", [{"text": "a"}]), "--vocabulary", 302, tokenizer="llamastyle")
        message = self.refused("data", "pack", self.directory / "a.jsonl", "--vocabulary", 255, "-o", self.directory / "none")
        self.assertIn("without --tokenizer: its tokens go up to 255", message)

    def test_no_tokenizer(self):
        lines = self.lines("a.jsonl", [{"text": "a"}])
        self.assertIn("no tokenizer.json in it", self.refuse(lines, tokenizer=self.directory))
        self.assertIn("there is no such file or folder", self.refuse(lines, tokenizer=self.directory / "missing"))
        (self.directory / "tokenizer.json").write_text("{}")
        self.assertIn("is no tokenizer that tokenizers 0.", self.refuse(lines, tokenizer=self.directory))

    def with_python(self, commands):
        """An environment in which python3 is a shell script of these commands."""
        folder = self.make_folder("bin")
        (folder / "python3").write_text(f"#!/bin/sh\n{commands}\n")
        (folder / "python3").chmod(0o755)
        return {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}

    def test_python_without_the_package_is_told_what_to_install(self):
        lines = self.lines("a.jsonl", [{"text": "a"}])
        message = self.refuse(lines, env=self.with_python('exec /usr/bin/python3 -I -S "$@"'))
        self.assertIn("needs the Python package 'tokenizers'", message)
        self.assertIn("-m pip install tokenizers", message)
        self.assertIn("cannot run python3", self.refuse(lines, env={"PATH": str(self.directory)}, code=1))

    def test_a_process_that_dies(self):
        lines = self.lines("a.jsonl", [{"text": "a"}])
        environment = self.with_python('echo \'{"vocabulary": 300, "end": null, "masked": false}\'\nexit 5')
        self.assertIn("has ended with exit code 5 before its work was done", self.refuse(lines, env=environment, code=1))


if __name__ == "__main__":
    unittest.main()
