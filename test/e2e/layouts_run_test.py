#!/usr/bin/env python3
"""Native programs under every layout train as one rank does: f32 losses within 1e-5 over 10 steps, 1e-4 over 50.

The models have dropout 0.1, and clipping takes effect in every step.
"""

import json

from driver import SOURCE, DriverTest, main, write_tokens

SETTINGS = {"learning_rate": 1e-3, "clip_norm": 0.25, "schedule": "constant", "validation_fraction": 0, "seed": 7}

# Mesh, strategy, accumulation.
LAYOUTS = [("dp=4", "ddp", 1), ("tp=4", "megatron", 1), ("dp=2,tp=2", "megatron", 1), ("dp=2,tp=2", "megatron-sp", 1),
           ("dp=2,tp=2", "megatron", 2), ("dp=2,tp=2", "megatron-sp", 2)]
# With accumulation; three ranks divide hardly any dimension.
CONTEXT = [("cp=2", "cp", 1), ("dp=2,cp=2", "cp", 2), ("cp=2,tp=2", "megatron-sp+cp", 1), ("dp=2,cp=2", "zero3+cp", 2)]
SHARDED = [("dp=4", "zero1", 2), ("dp=2,tp=2", "zero2", 2), ("dp=4", "hsdp:2", 1), ("dp=2,tp=2", "megatron-sp+zero3", 2)]


class Layouts(DriverTest):
    def train_under(self, model, mesh, strategy, accumulation, **settings):
        name = f"{mesh}-{strategy}-{accumulation}"
        program = self.compile(name, model, "--mesh", mesh, "--strategy", strategy, accumulation=accumulation,
                               **SETTINGS, **settings)
        return self.train(program, self.data, name + ".out")

    def check(self, model, layouts, tolerance, vocabulary=256, **settings):
        """Trains under each layout; all losses within `tolerance` of one rank's."""
        self.data = write_tokens(self.directory / "tokens", 4000, vocabulary)
        one = self.train_under(model, "dp=1", "ddp", 1, **settings)
        self.assertEqual(len(one), settings["steps"])
        for step in self.metrics("dp=1-ddp-1.out"):
            self.assertGreater(step["grad_norm"], SETTINGS["clip_norm"], "clipping is active")
        for layout in layouts:
            with self.subTest(layout=layout):
                self.assert_close(one, self.train_under(model, *layout, **settings), tolerance)
        return one

    def test_gpt_over_10_steps(self):
        self.check("gpt-small", LAYOUTS, 1e-5, steps=10, global_batch=8, sequence_length=32)

    def test_gpt_over_50_steps(self):
        losses = self.check("gpt-small", [LAYOUTS[0], LAYOUTS[1], LAYOUTS[5]], 1e-4, steps=50, global_batch=8,
                            sequence_length=16)
        self.assertLess(float(losses[-1][1]), float(losses[0][1]) - 0.2, "the model learns")

    # Dropout and clipping included; the update runs on pieces, so that the norm is a sum over ranks.
    def test_state_that_is_split_over_data_parallel_ranks(self):
        self.check("gpt-small", SHARDED, 1e-5, steps=10, global_batch=8, sequence_length=32)

    def test_llama_with_split_state(self):
        self.check("llama-small", [("dp=4", "zero3", 2)], 1e-5, steps=10, global_batch=8, sequence_length=16,
                   dropout=0.1)

    # 61 tokens and three ranks: what is stored is padded.
    def test_split_state_that_does_not_divide(self):
        self.check(SOURCE / "test/e2e/oracle/gpt2", [("dp=3", "zero3", 1)], 1e-5, vocabulary=61, steps=10,
                   global_batch=6, sequence_length=16, dropout=0.1)

    # Dropout masks are those of whole sequences, and so are the positions for causal attention.
    def test_split_sequences(self):
        self.check("gpt-small", CONTEXT, 1e-5, steps=10, global_batch=8, sequence_length=32)

    def test_llama_with_split_sequences(self):
        self.check("llama-small", [("cp=4", "cp", 1), ("cp=2,tp=2", "cp", 2)], 1e-5, steps=10, global_batch=4,
                   sequence_length=16, dropout=0.1)

    # Two key/value heads over four ranks.
    def test_llama_with_fewer_key_value_heads_than_ranks(self):
        self.check("llama-small", [("tp=4", "megatron", 1), ("dp=2,tp=2", "megatron-sp", 2)], 1e-5, steps=10,
                   global_batch=4, sequence_length=16, dropout=0.1)

    # 61 tokens over four ranks are 16, 16, 16 and 13.
    def test_vocabulary_that_does_not_divide(self):
        self.check(SOURCE / "test/e2e/oracle/gpt2", [("tp=4", "megatron", 1), ("dp=2,tp=2", "megatron-sp", 1)], 1e-5,
                   vocabulary=61, steps=10, global_batch=4, sequence_length=16, dropout=0.1)

    # The order of a sum changes, so losses change within bounds; in every run they are the same, and the run would end
    # if ranks stored different values.
    def test_rows_of_embeddings_that_are_gathered(self):
        choices = self.directory / "rows.toml"
        choices.write_text('[rows]\n"*" = "gathered"\n')
        for number, (model, vocabulary, layouts) in enumerate((
                ("gpt-small", 256, [("dp=4", "ddp", 1), ("dp=2,tp=2", "megatron", 2), ("dp=2", "zero1", 3)]),
                ("llama-small", 256, [("dp=3", "ddp", 2), ("dp=2", "zero3", 1)]),
                (SOURCE / "test/e2e/oracle/gpt2", 61, [("dp=3", "zero3", 1)]))):
            self.data = write_tokens(self.directory / "tokens", 4000, vocabulary)
            settings = {**SETTINGS, "steps": 10, "global_batch": 12, "sequence_length": 16, "dropout": 0.1}
            one = self.train(self.compile("one", model, "--mesh", "dp=1", "--strategy", "ddp", **settings), self.data,
                             f"one{number}.out")
            for mesh, strategy, accumulation in layouts:
                with self.subTest(model=model, mesh=mesh, strategy=strategy):
                    program = self.compile("rows", model, "--mesh", mesh, "--strategy", strategy, "--choices", choices,
                                           accumulation=accumulation, **settings)
                    first, again = [self.train(program, self.data, f"{number}-{strategy}-{run}.out") for run in (1, 2)]
                    self.assert_close(one, first, 1e-5)
                    self.assertEqual(first, again)

    # Each input is split by its own placement, in training and in evaluation.
    def test_inputs_that_are_placed_differently(self):
        model = SOURCE / "test/e2e/oracle/gpt2"
        self.data = write_tokens(self.directory / "tokens", 4000, 61)
        settings = {**SETTINGS, "steps": 5, "global_batch": 4, "sequence_length": 16, "validation_fraction": 0.1}

        def train(name, mesh, strategy):
            program = self.compile(name, model, "--mesh", mesh, "--strategy", strategy, **settings)
            losses = self.train(program, self.data, name + ".out")
            lines = (self.directory / (name + ".out") / "metrics.jsonl").read_text().splitlines()
            held_out = [json.loads(line).get("validation_metrics/loss") for line in lines]
            return losses + [("held-out", loss) for loss in held_out if loss]

        one = train("one", "dp=1", "ddp")
        self.assertEqual(one[-1][0], "held-out")
        strategies = ['tokens = { batch = ["dp"] }', 'targets = { batch = ["dp"] }',
                      'tokens = { batch = ["dp"] }\ntargets = { sequence = ["tp"] }',
                      'tokens = { batch = ["tp"] }\ntargets = { batch = ["dp"], sequence = ["tp"] }']
        for i, inputs in enumerate(strategies):
            with self.subTest(inputs=inputs):
                strategy = self.directory / f"{i}.toml"
                strategy.write_text('[parameters]\n"*" = { mlp = ["tp"] }\n[inputs]\n' + inputs + "\n")
                self.assert_close(one, train(str(i), "dp=2,tp=2", strategy), 1e-5)


if __name__ == "__main__":
    main(at_once=2)
