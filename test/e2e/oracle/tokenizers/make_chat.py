#!/usr/bin/env python3
"""Makes two chat tokenizers and records the results of transformers' apply_chat_template for conversations (chat.json).

chat_marked: its template, in tokenizer_config.json, marks answers by {% generation %}, and uses what templates of real
models use: raise_exception, tojson, namespaces, loop controls, trimmed contents. chat_plain: the template in
chat_template.jinja marks nothing. Its expected masks are those of transformers for the same template, with marks around
what an answer adds to its prompt.

    python3 make_chat.py   (in this folder; needs transformers 5.24, tokenizers 0.23, jinja2)
"""

import json
import pathlib

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<s>"]

MARKED = """{{ bos_token }}
{%- set state = namespace(system='') -%}
{% for message in messages %}
    {% if message.role == 'system' %}
        {% set state.system = message.content | trim %}
        {% continue %}
    {% elif message.role not in ['user', 'assistant', 'tool'] %}
        {{ raise_exception('no such role: ' + message.role) }}
    {% endif %}
<|im_start|>{{ message['role'] }}
{% if loop.index0 <= 1 and state.system and message.role == 'user' %}
[{{ state.system }}]
{% endif %}
{% if message.tool_calls %}
{{ message.tool_calls | tojson }}
{% endif %}
{% if message.role == 'assistant' %}
{% generation %}{{ message.content | trim }}<|im_end|>{% endgeneration %}

{% else %}
{{ message.content }}<|im_end|>
{% endif %}
{% endfor %}
{% if tools %}
tools: {{ tools | tojson(indent=2) }}
{% endif %}
{% if add_generation_prompt %}
<|im_start|>assistant
{% endif %}
"""

PLAIN = """{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' }}BEGIN{{ message['content'] + '<|im_end|>\\n' }}END\
{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
ANSWER = PLAIN.replace("BEGIN", "{% if message['role'] == 'assistant' %}{% generation %}").replace(
    "END", "{% endgeneration %}{% else %}{{ message['content'] + '<|im_end|>\\n' }}{% endif %}")

CONVERSATIONS = [
    {"messages": [{"role": "user", "content": "How small is the house?"}, {"role": "assistant", "content": "The house is small."}]},
    {"messages": [{"role": "system", "content": "  Be short. "}, {"role": "user", "content": "Grüße & <b>bold</b>"},
                  {"role": "assistant", "content": " Guten Tag 🙂! "}, {"role": "user", "content": "And?\n"},
                  {"role": "assistant", "content": "No more."}]},
    {"messages": [{"role": "user", "content": "Nobody answers."}]},
    {"messages": [{"role": "user", "content": "1 + 22", "name": None},
                  {"role": "assistant", "content": "", "tool_calls": [{"name": "add", "arguments": {"a": 1, "b": "<22>"}}]},
                  {"role": "tool", "content": "23"}, {"role": "assistant", "content": "It is 23."}],
     "tools": [{"name": "add", "parameters": {"a": "int", "b": "int"}}]},
]


def train():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    texts = [json.dumps(conversation) for conversation in CONVERSATIONS]
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=330, special_tokens=SPECIALS, show_progress=False,
                                                             initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return tokenizer


def record(tokenizer, template):
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="<|im_end|>")
    recorded = []
    for conversation in CONVERSATIONS:
        out = fast.apply_chat_template(conversation["messages"], tools=conversation.get("tools"), chat_template=template,
                                       tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
        recorded.append({"ids": out["input_ids"], "mask": out["assistant_masks"]})
    return recorded


tokenizer = train()
config = {"bos_token": "<s>", "eos_token": "<|im_end|>", "add_bos_token": True}
for name, extra in [("chat_marked", {"chat_template": [{"name": "default", "template": MARKED}, {"name": "other", "template": ""}]}),
                    ("chat_plain", {})]:
    folder = pathlib.Path(name)
    folder.mkdir(exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, **extra}, indent=1) + "\n")
pathlib.Path("chat_plain/chat_template.jinja").write_text(PLAIN.replace("BEGIN", "").replace("END", ""))

plain = record(tokenizer, ANSWER)
unmarked = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="<|im_end|>")
for conversation, one in zip(CONVERSATIONS, plain):
    assert unmarked.apply_chat_template(conversation["messages"], chat_template=PLAIN.replace("BEGIN", "").replace("END", ""),
                                        tokenize=True, return_dict=True)["input_ids"] == one["ids"]
pathlib.Path("chat.json").write_text(json.dumps({"conversations": CONVERSATIONS, "chat_marked": record(tokenizer, MARKED),
                                                 "chat_plain": plain}) + "\n")
