#!/usr/bin/env python3
"""Tokenizes documents for `dtc data pack` with Hugging Face's tokenizers.

    tokenize.py TOKENIZER END     TOKENIZER: a tokenizer.json; END: auto, none or a token that ends documents

It speaks with dtc through its standard input and output (tools/dtc/Tokenizer.h). First it writes a line of JSON about the
tokenizer, or {"error": ...}. Then it answers each batch of documents,

    count, bytes of each document, and the documents        uint32, uint32[count], bytes

by their tokens,

    count, tokens of each document, and the tokens          uint32, uint32[count], uint32[...]

or by what is wrong with one of them: 0xffffffff, its place in the batch, and the bytes of a message.
"""

import array
import collections
import json
import os
import pathlib
import signal
import sys
from concurrent.futures import ThreadPoolExecutor

# Batches under way at a time: while one is encoded, another's tokens are made ready to be written.
AT_ONCE = 2
ERROR = 0xFFFFFFFF
# What ends documents in common vocabularies whose folder does not say it.
COMMON_ENDS = ["<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"]


class Unusable(Exception):
    """For the user: the tokenizer cannot be used."""


class BadDocument(Exception):
    """For the user: what is wrong with a document."""

    def __init__(self, document, problem):
        super().__init__(problem)
        self.document = document


def import_or_explain(package, purpose):
    try:
        return __import__(package)
    except ImportError as error:
        raise Unusable(f"{purpose} needs the Python package '{package}', which {sys.executable} does not have ({error}); "
                       f"install it with '{sys.executable} -m pip install {package}', or put a python3 that has it first in "
                       "PATH") from None


def read_json(path):
    """An object, empty where there is no such file."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise Unusable(f"cannot read '{path}': {error}") from None
    if not isinstance(value, dict):
        raise Unusable(f"'{path}' holds no JSON object")
    return value


def text_of(token):
    """Configurations write a token as a string, or as an object with its content."""
    return token.get("content") if isinstance(token, dict) else token


class Tokenizer:
    def __init__(self, path, end):
        tokenizers = import_or_explain("tokenizers", "a tokenizer.json")
        self.path = pathlib.Path(path)
        try:
            self.tokenizer = tokenizers.Tokenizer.from_file(path)
        except Exception as error:  # the package raises nothing more special
            raise Unusable(f"'{path}' is no tokenizer that tokenizers {tokenizers.__version__} reads: {error}") from None
        # A file may ask for what batches of a model need and a corpus must not have.
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        # Without the offsets that nobody asks for.
        self.encode_batch = getattr(self.tokenizer, "encode_batch_fast", self.tokenizer.encode_batch)
        self.vocabulary = max(self.tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1
        self.end = self.find_end(end)

    def configured(self, name):
        """A special token that a file beside the tokenizer names."""
        for file in ["tokenizer_config.json", "special_tokens_map.json"]:
            if token := text_of(read_json(self.path.parent / file).get(name)):
                return token
        return None

    def find_end(self, wish):
        if wish == "none":
            return None
        if wish != "auto":
            return self.id_of(wish, "--end-of-document")
        if token := self.configured("eos_token"):
            return self.id_of(token, f"eos_token of {self.path.parent}")
        common = [token for token in COMMON_ENDS if self.tokenizer.token_to_id(token) is not None]
        if len(common) == 1:
            return self.tokenizer.token_to_id(common[0])
        raise Unusable(f"nothing beside '{self.path}' says which token ends a document (an eos_token of tokenizer_config.json); "
                       "give --end-of-document TOKEN, or none")

    def id_of(self, token, origin):
        found = self.tokenizer.token_to_id(token)
        if found is None:
            raise Unusable(f"{origin}: '{token}' is no token of '{self.path}'")
        return found

    def encode(self, documents):
        """The tokens of each document."""
        texts = []
        for index, document in enumerate(documents):
            try:
                texts.append(document.decode("utf-8"))
            except UnicodeDecodeError as error:
                raise BadDocument(index, f"no UTF-8 at byte {error.start} of the document") from None
        return [encoding.ids for encoding in self.encode_batch(texts)]


def read_exactly(file, count):
    data = file.read(count)
    if len(data) != count:
        sys.exit(0)  # dtc has ended; it says why
    return data


def uint32s(data):
    return array.array("I", data)


def read_batches(file):
    while head := file.read(4):
        lengths = uint32s(read_exactly(file, 4 * uint32s(head)[0]))
        data = read_exactly(file, sum(lengths))
        begin, documents = 0, []
        for length in lengths:
            documents.append(data[begin:begin + length])
            begin += length
        yield documents


def answer(tokenizer, documents):
    """The bytes of an answer, and whether it is the last one."""
    try:
        ids_of = tokenizer.encode(documents)
    except BadDocument as error:
        message = str(error).encode()
        return uint32s([ERROR, error.document, len(message)]).tobytes() + message, True
    counts, tokens = array.array("I", [len(ids_of)]), array.array("I")
    for ids in ids_of:
        counts.append(len(ids))
        tokens.extend(ids)
    return counts.tobytes() + tokens.tobytes(), False


def serve(tokenizer, source, sink):
    pending = collections.deque()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        def deliver():
            data, is_last = pending.popleft().result()
            sink.write(data)
            if is_last:
                sink.flush()
                os._exit(0)  # without waiting for the batches behind it
        for documents in read_batches(source):
            pending.append(pool.submit(answer, tokenizer, documents))
            if len(pending) > AT_ONCE:
                deliver()
        while pending:
            deliver()
    sink.flush()


def main():
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # dtc ends, too, and no traceback says more
    sink = sys.stdout.buffer
    try:
        tokenizer = Tokenizer(*sys.argv[1:3])
        header = {"vocabulary": tokenizer.vocabulary, "end": tokenizer.end}
    except Unusable as error:
        header = {"error": str(error)}
    sink.write(json.dumps(header).encode() + b"\n")
    sink.flush()
    if "error" not in header:
        serve(tokenizer, sys.stdin.buffer, sink)


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        os._exit(0)
