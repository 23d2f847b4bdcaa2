#!/usr/bin/env python3
"""dtc explain: where collectives are, and which annotations would remove them. A remedy is compared with the program
that is compiled with it.
"""

import collections
import json
import unittest

from driver import DriverTest

# The head is tied to the embedding in neither family: every parameter has its own place.
LLAMA = {"model_type": "llama", "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2,
         "intermediate_size": 48, "num_hidden_layers": 3, "max_position_embeddings": 16, "vocab_size": 64,
         "tie_word_embeddings": False}
GPT2 = {"model_type": "gpt2", "n_embd": 32, "n_head": 4, "n_layer": 3, "n_positions": 16, "vocab_size": 64}
SETTINGS = {"global_batch": 8, "sequence_length": 16}


class Explain(DriverTest):
    def make(self, name, config, *layout, **settings):
        model = self.directory / (name + "-model")
        model.mkdir(exist_ok=True)
        (model / "config.json").write_text(json.dumps(config))
        return self.compile(name, model, *layout, **{**SETTINGS, **settings})

    def explain(self, program):
        return json.loads(self.dtc("explain", program, "--json"))

    def strategy(self, text):
        path = self.directory / "strategy.toml"
        path.write_text(text)
        return path

    def sent(self, answer):
        return sum(each["sent_bytes"] * each["times_per_step"] for each in answer["collectives"])

    def arena(self, program):
        return json.loads(self.dtc("inspect", program, "--json"))["roles"][0]["arena_bytes"]

    # The remedy that works keeps the parameters whole; with the batch unsplit, every rank would do all the work.
    def test_the_remedy_of_gathered_parameters(self):
        program = self.make("program", LLAMA, "--mesh", "dp=4", "--strategy", "zero3")
        answer = self.explain(program)
        gathers = [each for each in answer["collectives"] if each["kind"] == "all_gather"]
        self.assertEqual({each["remedy"] for each in gathers}, {'[storage] "*" = { any = [] }'})
        self.assertEqual({each["remedy"] for each in answer["collectives"] if each not in gathers}, {""})
        now, then = answer["cost"], gathers[0]["remedy_cost"]
        self.assertEqual((self.sent(answer), self.arena(program)), (now["sent_bytes"], now["arena_bytes"]))
        whole = self.make("whole", LLAMA, "--mesh", "dp=4", "--strategy",
                          self.strategy('preset = "zero3"\n[storage]\n"*" = { any = [] }\n'))
        answer = self.explain(whole)
        self.assertEqual((self.sent(answer), self.arena(whole)), (then["sent_bytes"], then["arena_bytes"]))
        self.assertEqual({each["list"] for each in answer["collectives"] if each["kind"] == "all_gather"}, {"update"})
        self.assertLess(then["sent_bytes"], now["sent_bytes"])
        self.assertGreater(then["arena_bytes"], now["arena_bytes"])
        self.assertLess(abs(then["flops"] / now["flops"] - 1), 0.01)
        self.assertRegex(self.dtc("explain", program), r'  remedy  \[storage\] "\*" = \{ any = \[\] \}\n'
                         r" +a rank then sends \S+ kB a step instead of \S+ kB, works as much and needs ")

    def test_gradients_reduced_in_each_micro_batch(self):
        program = self.make("program", GPT2, "--mesh", "dp=4", "--strategy", "zero2", accumulation=2)
        remedies = {(each["kind"], each["remedy"]) for each in self.explain(program)["collectives"]
                    if each["list"] == "micro"}
        self.assertEqual(remedies, {("reduce_scatter", '[gradients] "*" = { any = [] }')})

    # Gathers of updated parameters propose the same entry, but it does not remove them.
    def test_a_remedy_is_shown_where_it_removes_a_collective(self):
        program = self.make("program", GPT2, "--mesh", "dp=4", "--strategy",
                            self.strategy('preset = "zero3"\n[storage]\n"h.*" = { any = [] }\n'))
        remedy = '[storage] "*" = { any = [] }'
        remedies = {(each["list"], each["remedy"]) for each in self.explain(program)["collectives"]
                    if each["kind"] == "all_gather"}
        self.assertEqual(remedies, {("micro_last", remedy), ("eval", remedy), ("update", "")})

    # The table of docs/pipelines.md. The second rank has no embedding, of which only the rows that are looked up move.
    def test_what_a_pipeline_moves_over_its_replicas(self):
        micro, norm = 4, 4 * 32
        layer = 4 * (2 * 32 * 32 + 2 * 32 * 16 + 3 * 32 * 48) + 2 * norm
        for timetable, whole in (("1f1b", 2 * layer + 4 * 64 * 32 + norm), ("zbv", 2 * layer)):  # the head's rank: 1 and 0
            for strategy, reduces, scatters, gathers in (("ddp", 1, 0, 0), ("zero1", 0, 1, 1), ("zero2", 0, micro, 1),
                                                         ("zero3", 0, micro, 2 * micro)):
                with self.subTest(timetable=timetable, strategy=strategy):
                    program = self.make(f"{timetable}-{strategy}", {**LLAMA, "num_hidden_layers": 4}, "--mesh", "dp=2,pp=2",
                                        "--strategy", strategy, "--timetable", timetable, accumulation=micro)
                    sent = collections.Counter()
                    for each in self.explain(program)["collectives"]:
                        if each["group"] == [1, 3]:
                            sent[each["kind"]] += each["sent_bytes"] * each["times_per_step"]
                    # One of two ranks sends half of what is scattered or gathered. The norm for clipping takes some bytes.
                    self.assertEqual(sent["all_reduce"] // 1024, reduces * whole // 1024)
                    self.assertEqual(sent["reduce_scatter"], scatters * whole / 2)
                    more = sent["all_gather"] - gathers * whole / 2
                    self.assertLessEqual(0, more)
                    self.assertLessEqual(more, micro * 5 * norm / 2 if strategy == "zero3" else 0, "norms, once more")

    # Remedies that save messages by repeating the work of other ranks are not shown.
    def test_no_remedy_makes_ranks_repeat_work(self):
        for layout in (["--mesh", "dp=4"], ["--mesh", "dp=2,tp=2"]):
            answer = self.explain(self.make("program", GPT2, *layout))
            for each in answer["collectives"]:
                self.assertNotIn("batch", each["remedy"])
                if each["remedy"]:
                    self.assertLessEqual(each["remedy_cost"]["flops"], 1.25 * answer["cost"]["flops"])

    # Whole sequences would double the work of a rank: nothing is proposed, but the reason names what is gathered.
    def test_gathered_keys_and_values(self):
        answer = self.explain(self.make("program", LLAMA, "--mesh", "cp=2", "--strategy", "cp"))
        layers = LLAMA["num_hidden_layers"]
        for kind, reason in (("all_gather", "split over cp along sequence, needed whole by dt.attention"),
                             ("reduce_scatter", "partial over cp (dt.attention_grad")):
            found = [each for each in answer["collectives"] if each["kind"] == kind and each["list"] != "eval"]
            self.assertEqual(len(found), 2 * layers, kind)
            # Two heads of 8 numbers for 16 tokens of 8 sequences, half of it sent.
            self.assertEqual({each["sent_bytes"] for each in found}, {8 * 16 * 2 * 8 * 4 // 2})
            self.assertEqual({each["remedy"] for each in found}, {""})
            for each in found:
                self.assertIn(reason, each["reason"])

    # The program carries the text of its strategy's file.
    def test_a_strategy_file_is_not_needed_again(self):
        path = self.strategy('[inputs]\n"*" = { batch = ["dp"] }\n[storage]\n"h.*" = { any = ["dp"] }\n')
        program = self.make("program", GPT2, "--mesh", "dp=4", "--strategy", path)
        path.unlink()
        remedies = {each["remedy"] for each in self.explain(program)["collectives"]}
        self.assertEqual(remedies, {"", '[storage] "*" = { any = [] }'})

    def test_without_the_model_nothing_is_tried(self):
        text = self.directory / "model.mlir"
        self.make("program", GPT2)
        self.dtc("compile", self.directory / "program-model", "--set", "global_batch=4", "--compile-to", "model", "-o",
                 text)
        program = self.compile("of-text", text, "--mesh", "dp=2", "--strategy", "zero3", global_batch=4)
        output = self.dtc("explain", program)
        self.assertIn("all_gather over dp at wte.weight (micro_last)", output)
        self.assertNotIn("  remedy", output)
        self.assertIn("no remedies are shown, as none was tried: the program was compiled from a model in text", output)

    def test_every_collective_has_a_place(self):
        answer = self.explain(self.make("program", LLAMA, "--mesh", "dp=2,tp=2", "--strategy", "zero3"))
        places = {each["location"] for each in answer["collectives"]}
        self.assertNotIn("?", places)
        self.assertLessEqual({"lm_head", *(f"model.layers.0.{name}" for name in (
            "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj",
            "mlp.up_proj", "mlp.down_proj"))}, places)

    def test_totals_come_first_and_evaluation_last(self):
        output = self.dtc("explain", self.make("program", GPT2, "--mesh", "dp=2,tp=2", accumulation=2))
        self.assertTrue(output.startswith("In one step a rank takes part in\n"), output)
        lists = [line.rsplit("(", 1)[1] for line in output.splitlines() if " at " in line and line.endswith(")")
                 and not line.startswith(" ")]
        in_step = [name != "eval)" for name in lists]
        self.assertEqual(in_step, sorted(in_step, reverse=True))
        self.assertIn("eval)", lists)

    # The hidden and the waited-for communication add up to all of it, and agree with the simulator.
    def test_the_order_on_a_cluster(self):
        cluster = self.directory / "slow.textproto"
        cluster.write_text("""
name: "slow"
devices { name: "a" peaks { type: "f32" flops: 1e11 } memory_bandwidth: 1e10 memory_bytes: 1000000000 }
nodes { device: "a" devices: 1 count: 2 }
levels { name: "network" latency: 5e-6 bandwidth: 2e8 }
""")
        program = self.make("program", GPT2, "--mesh", "tp=2", "--strategy", "megatron")
        answer = json.loads(self.dtc("explain", program, "--cluster", cluster, "--order", "--json"))
        simulated = json.loads(self.dtc("simulate", program, "--cluster", cluster, "--json"))
        self.assertEqual(answer["seconds"], simulated["seconds"])
        self.assertEqual(answer["lower_bound"], simulated["lower_bound"]["seconds"])
        moves = answer["roles"][0]["moves"]
        for each in moves:
            self.assertAlmostEqual(each["hidden"] + each["exposed"], each["moving"])
        self.assertAlmostEqual(sum(each["exposed"] for each in moves), simulated["ranks"][0]["exposed"])
        feed = next(each for each in moves if each["what"] == "all_reduce over tp at h.*.mlp.c_fc")
        self.assertEqual((feed["count"], feed["times"], feed["list"]), (3, 3, "micro_last"))
        self.assertIn("weight gradient product at h.*.mlp.c_fc", [each["what"] for each in feed["behind"]])
        self.assertGreater(feed["exposed"], 0)
        self.assertRegex(feed["held"], "^it starts behind .*, and input gradient .* at h.* needs it$")
        text = self.dtc("explain", program, "--cluster", cluster, "--order")
        self.assertRegex(text, r"A step takes .* on slow; ranks wait .* of it for what moves")
        self.assertRegex(text, r"all_reduce over tp at h\.\*\.mlp\.c_fc \(micro_last\)\n  moves   3 of these: ")
        self.assertIn("--order", self.dtc("explain", program, "--order", code=2))

    # One part moves while another is computed: both are named.
    def test_parts_are_told_apart(self):
        cluster, choices = self.directory / "slow.textproto", self.directory / "choices.toml"
        cluster.write_text("""
name: "slow"
devices { name: "a" peaks { type: "f32" flops: 1e9 } memory_bandwidth: 1e10 memory_bytes: 1000000000 }
nodes { device: "a" devices: 1 count: 2 }
levels { name: "network" latency: 1e-6 bandwidth: 2e7 }
""")
        layout, order = ["--mesh", "tp=2", "--strategy", "megatron-sp"], ["--cluster", cluster, "--order"]
        legend = ("Where several in a layer have the same name, such as the parts of a batch or of a gradient, "
                  "the second ends in #2")
        for parts in (1, 2):
            choices.write_text(f'[split]\n"h.*" = {parts}\n')
            program = self.make("program", GPT2, *layout, "--choices", choices)
            role, = json.loads(self.dtc("explain", program, *order, "--json"))["roles"]
            moves = {each["what"]: each for each in role["moves"]}
            gather = "all_gather over tp at h.*.ln_2"
            self.assertEqual(moves[gather]["count"], moves["all_gather over tp at h.*.ln_1"]["count"])
            self.assertEqual(gather + " #2" in moves, parts == 2)
            if parts == 2:
                self.assertEqual(moves[gather + " #2"]["count"], moves[gather]["count"])
                self.assertIn("forward product at h.*.attn.c_proj #2", [each["what"] for each in moves[gather]["behind"]])
                self.assertIn(legend, self.dtc("explain", program, *order))

    def test_large_groups_are_abbreviated(self):
        program = self.make("program", GPT2, "--mesh", "dp=32,tp=2", global_batch=32)
        self.assertIn("  group   32 ranks, such as {0, 2, 4, ..., 62}, on channel 1\n", self.dtc("explain", program))


if __name__ == "__main__":
    unittest.main()
