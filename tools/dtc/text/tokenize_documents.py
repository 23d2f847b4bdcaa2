#!/usr/bin/env python3
"""Tokenizes documents for `dtc data pack` with Hugging Face's tokenizers.

    tokenize_documents.py TOKENIZER END [FIELD]
    tokenize_documents.py --text TOKENIZER

TOKENIZER is a tokenizer.json; END is auto, none or a token that ends documents. With FIELD documents are JSON objects
with a conversation in this field.

It talks to dtc through its standard input and output (tools/dtc/text/Tokenizer.h). First it writes a line of JSON about
the tokenizer, or {"error": ...}. Then it answers each batch of documents,

    count, bytes of each document, and the documents        uint32, uint32[count], bytes

with their tokens,

    count, tokens of each document, and the tokens          uint32, uint32[count], uint32[...]

for conversations followed by a byte for each token, 1 where it belongs to an answer and 0 otherwise; or with an error
about one of them: 0xffffffff, its index in the batch, and the bytes of a message.

With --text it answers one request after the other (tools/dtc/text/TokenText.h): texts with their tokens, and tokens
with their text.
"""

import array
import collections
import datetime
import json
import os
import pathlib
import signal
import sys
from concurrent.futures import ThreadPoolExecutor

# Batches in progress at a time: while one is encoded, another's tokens are prepared for writing.
AT_ONCE = 2
ERROR = 0xFFFFFFFF
# The end token of common vocabularies whose folder does not state it.
COMMON_ENDS = ["<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>"]


class Unusable(Exception):
    """An error for the user: the tokenizer cannot be used."""


class BadDocument(Exception):
    """An error for the user: what is wrong with a document."""

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
    """The object in a JSON file; empty where there is no such file."""
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
    """The token's text: configurations write a token as a string, or as an object with its content."""
    return token.get("content") if isinstance(token, dict) else token


class Tokenizer:
    """Tokenizes texts."""

    is_chat = False

    def __init__(self, path, end):
        tokenizers = import_or_explain("tokenizers", "a tokenizer.json")
        self.path = pathlib.Path(path)
        try:
            self.tokenizer = tokenizers.Tokenizer.from_file(path)
        except Exception as error:  # the package raises nothing more specific
            raise Unusable(f"'{path}' is no tokenizer that tokenizers {tokenizers.__version__} reads: {error}") from None
        # A file may ask for truncation and padding, which suit a model's batches but must not happen to a corpus.
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        # Without offsets, which nobody needs.
        self.encode_batch = getattr(self.tokenizer, "encode_batch_fast", self.tokenizer.encode_batch)
        self.vocabulary = max(self.tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1
        self.end = self.find_end(end)

    def special_tokens(self):
        """The tokens that the files next to the tokenizer name, such as eos_token; the first file decides."""
        tokens = {}
        for file in ["special_tokens_map.json", "tokenizer_config.json"]:
            for name, value in read_json(self.path.parent / file).items():
                if name.endswith("_token") and isinstance(text_of(value), str):
                    tokens[name] = text_of(value)
        return tokens

    def find_end(self, wish):
        if wish == "none" or (wish == "auto" and self.is_chat):
            return None
        if wish != "auto":
            return self.id_of(wish, "--end-of-document")
        if token := self.special_tokens().get("eos_token"):
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
        """The tokens of each document, and no masks."""
        texts = []
        for index, document in enumerate(documents):
            try:
                texts.append(document.decode("utf-8"))
            except UnicodeDecodeError as error:
                raise BadDocument(index, f"no UTF-8 at byte {error.start} of the document") from None
        return [encoding.ids for encoding in self.encode_batch(texts)], None


class ChatTokenizer(Tokenizer):
    """Tokenizes conversations, which a chat template turns into texts."""

    is_chat = True

    def __init__(self, path, end, field):
        super().__init__(path, end)
        self.field = field
        self.template = ChatTemplate(*self.find_template(), self.special_tokens())

    def find_template(self):
        """The chat template's text, and where it comes from."""
        file = self.path.parent / "chat_template.jinja"
        if file.exists():
            return file.read_text(encoding="utf-8"), str(file)
        config = self.path.parent / "tokenizer_config.json"
        template = read_json(config).get("chat_template")
        if isinstance(template, list):  # several, by name
            template = {entry.get("name"): entry.get("template") for entry in template}.get("default")
        if not isinstance(template, str):
            raise Unusable(f"no chat template: neither '{file}' nor a chat_template in '{config}'")
        return template, str(config)

    def encode(self, documents):
        """The tokens of each document, and for each token whether it belongs to an answer, that is, overlaps one."""
        texts, answers = zip(*(self.render(index, document) for index, document in enumerate(documents)))
        encodings = self.tokenizer.encode_batch(texts, add_special_tokens=False)
        return [encoding.ids for encoding in encodings], [self.mask(*pair) for pair in zip(encodings, answers)]

    def render(self, index, document):
        conversation = json.loads(document)
        try:
            return self.template.render(messages_of(conversation, self.field), conversation.get("tools"))
        except Unusable as error:
            raise BadDocument(index, str(error)) from None

    @staticmethod
    def mask(encoding, answers):
        mask, rest = bytearray(len(encoding.ids)), collections.deque(answers)
        for token, (begin, end) in enumerate(encoding.offsets):
            while rest and rest[0][1] <= begin:
                rest.popleft()
            if not rest:
                break
            mask[token] = end > rest[0][0]
        return mask


def messages_of(conversation, field):
    messages = conversation.get(field)
    if messages is None:
        raise Unusable(f"no field '{field}' in this line, which has {', '.join(map(repr, conversation)) or 'none'}; name the one "
                       "with the conversation by --field")
    if not isinstance(messages, list) or not messages:
        raise Unusable(f"field '{field}' is no list of messages, [{{\"role\": ..., \"content\": ...}}, ...]")
    for number, message in enumerate(messages, 1):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise Unusable(f"message {number} has no 'role'")
    # As in transformers: a field that is null is treated as absent.
    return [{key: value for key, value in message.items() if value is not None} for message in messages]


class ChatTemplate:
    """A template as transformers renders it, with the positions of answers in its text."""

    # Placed around the text that a template marks by {% generation %}: private characters, removed again.
    BEGIN, END = "\U000f5a01", "\U000f5a02"

    def __init__(self, text, origin, special_tokens):
        jinja2 = import_or_explain("jinja2", "a chat template")
        self.errors = (jinja2.TemplateError, TypeError, KeyError, ValueError)
        self.special_tokens = special_tokens
        if "role" not in text:
            raise Unusable(f"the chat template in '{origin}' does not look at roles ('role'), so nothing tells answers from "
                           "questions; give the tokenizer a template that does")
        environment = self.make_environment(jinja2)
        try:
            self.template = environment.from_string(text)
        except jinja2.TemplateError as error:
            raise Unusable(f"the chat template in '{origin}' is no template of Jinja's: {error}") from None
        self.marks = environment.marks

    def make_environment(self, jinja2):
        import jinja2.ext
        import jinja2.sandbox

        begin, end = self.BEGIN, self.END

        class Generation(jinja2.ext.Extension):
            """{% generation %} ... {% endgeneration %}"""

            tags = {"generation"}

            def __init__(self, environment):
                super().__init__(environment)
                environment.marks = False

            def parse(self, parser):
                line = next(parser.stream).lineno
                body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
                self.environment.marks = True
                return jinja2.nodes.CallBlock(self.call_method("mark"), [], [], body, lineno=line)

            def mark(self, caller):
                return begin + caller() + end

        def raise_exception(message):
            raise jinja2.TemplateError(message)

        environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                                  extensions=[Generation, jinja2.ext.loopcontrols])
        environment.globals["raise_exception"] = raise_exception
        environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
        # Jinja's own escapes for HTML.
        environment.filters["tojson"] = lambda value, ensure_ascii=False, indent=None, separators=None, sort_keys=False: \
            json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
        return environment

    def text(self, messages, tools, add_generation_prompt=False):
        try:
            return self.template.render(messages=messages, tools=tools, documents=None,
                                        add_generation_prompt=add_generation_prompt, **self.special_tokens)
        except self.errors as error:
            raise Unusable(f"the chat template refuses it: {error}") from None

    def render(self, messages, tools):
        """The text, and begin and end of each answer in it."""
        if any(mark in json.dumps(messages, ensure_ascii=False) for mark in (self.BEGIN, self.END)):
            raise Unusable("it has U+F5A01 or U+F5A02, private characters by which answers are marked here; take them out")
        text = self.text(messages, tools)
        return self.take_marks(text) if self.marks else (text, self.compare_prefixes(text, messages, tools))

    def take_marks(self, marked):
        text, answers = "", []
        for number, piece in enumerate(marked.replace(self.END, self.BEGIN).split(self.BEGIN)):
            if number % 2:
                answers.append((len(text), len(text) + len(piece)))
            text += piece
        return text, answers

    def compare_prefixes(self, text, messages, tools):
        """An answer is the text that its message adds to the prompt for it. (A prompt may contain more: "do not think"
        is part of no answer.)"""
        answers = []
        for number, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            before = self.text(messages[:number], tools)
            prompt = self.text(messages[:number], tools, add_generation_prompt=True)
            after = self.text(messages[:number + 1], tools)
            if not (text.startswith(after) and after.startswith(before) and prompt.startswith(before)):
                raise Unusable(f"where the answer in message {number + 1} is cannot be told: the chat template writes what comes "
                               "before it in another way when the answer follows; mark answers in the template by "
                               "{% generation %} and {% endgeneration %}")
            answers.append((len(os.path.commonprefix([prompt, after])), len(after)))
        return answers


def read_exactly(file, count):
    data = file.read(count)
    if len(data) != count:
        sys.exit(0)  # dtc has ended; it reports why
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
        ids_of, masks = tokenizer.encode(documents)
    except BadDocument as error:
        message = str(error).encode()
        return array.array("I", [ERROR, error.document, len(message)]).tobytes() + message, True
    counts, tokens = array.array("I", [len(ids_of)]), array.array("I")
    for ids in ids_of:
        counts.append(len(ids))
        tokens.extend(ids)
    return counts.tobytes() + tokens.tobytes() + b"".join(masks or []), False


def serve(tokenizer, source, sink):
    pending = collections.deque()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        def deliver():
            data, is_last = pending.popleft().result()
            sink.write(data)
            if is_last:
                sink.flush()
                os._exit(0)  # without waiting for the batches after it
        for documents in read_batches(source):
            pending.append(pool.submit(answer, tokenizer, documents))
            if len(pending) > AT_ONCE:
                deliver()
        while pending:
            deliver()
    sink.flush()


class TextTokenizer(Tokenizer):
    """Single texts, and back."""

    def __init__(self, path):
        super().__init__(path, "none")
        self.end = self.tokenizer.token_to_id(self.special_tokens().get("eos_token", ""))
        # Bytes, in the notation of decoders that fall back to bytes.
        pieces = self.tokenizer.get_vocab(with_added_tokens=False)
        self.bytes = [pieces[piece] for piece in (f"<0x{byte:02X}>" for byte in range(256)) if piece in pieces]

    def answer(self, question, data):
        if question == 1:
            text = self.tokenizer.decode(list(uint32s(data)), skip_special_tokens=True).encode()
            return array.array("I", [len(text)]).tobytes() + text
        try:
            ids = array.array("I", self.tokenizer.encode(data.decode("utf-8")).ids)
            return array.array("I", [len(ids)]).tobytes() + ids.tobytes()
        except UnicodeDecodeError as error:
            message = f"no UTF-8 at byte {error.start} of the text".encode()
            return array.array("I", [ERROR, len(message)]).tobytes() + message


def serve_text(tokenizer, source, sink):
    while head := source.read(8):
        question, count = uint32s(head)
        sink.write(tokenizer.answer(question, read_exactly(source, 4 * count if question == 1 else count)))
        sink.flush()


def main():
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # dtc ends, too, and a traceback would add nothing
    sink = sys.stdout.buffer
    try:
        if is_text := sys.argv[1] == "--text":
            tokenizer = TextTokenizer(sys.argv[2])
        else:
            tokenizer = (ChatTokenizer if len(sys.argv) > 3 else Tokenizer)(*sys.argv[1:])
        header = {"vocabulary": tokenizer.vocabulary, "end": tokenizer.end, "masked": tokenizer.is_chat}
        if is_text:
            header["bytes"] = tokenizer.bytes
    except Unusable as error:
        header = {"error": str(error)}
    sink.write(json.dumps(header).encode() + b"\n")
    sink.flush()
    if "error" not in header:
        (serve_text if is_text else serve)(tokenizer, sys.stdin.buffer, sink)


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        os._exit(0)
