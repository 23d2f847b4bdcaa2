#!/usr/bin/env python3
"""Records runs of PipeDream, simulated in one process from its definition: the oracle for stages with delayed weights.

    make_pipedream.py DIRECTORY      writes DIRECTORY/MODEL/ for each of MODELS; reads runs/tokens.bin next to this file

Needs torch, transformers, numpy, safetensors and optax; tests need only the output, which is stored in pipedream/ next to this
file. Each folder holds
  config.json, model.safetensors   the model before the first step, as transformers writes it, f32 weights
  train.toml                       the settings of all runs of the model, as dtc reads them
  RUN.json                         one object:
    stages, drains                 the number of stages; the steps after which the pipeline drains, apart from the last
    loss, lr                       one number a step: mean loss over the step's tokens, learning rate of its update
    versions, grad_norms           for each stage, one number a step: how many updates the weights of both passes have
                                   had; the norm of the gradient of the mean loss by the stage's weights
    held_out_loss                  after each drain and after the last step
    norms                          of the last weights, by name: only where there is no RUN.safetensors
  RUN.safetensors                  the weights after the last step, f64; not for runs with two drains
RUN is pP for P stages, followed by _drainK for each drain after K steps. Everything is computed in f64.

PipeDream (Harlap et al., arXiv:1806.03377; Narayanan et al., SOSP 2019), with 1F1B and weight stashing and without
vertical sync: stage s of p, counted from 0, has at most p - s minibatches under way. It begins with that many forward
passes, then alternates backward and forward passes. A forward pass reads the stage's newest weights, and the backward
pass of the same minibatch reads that version again. The optimizer then applies the gradient to the newest weights.
It follows that

    the weights that stage s reads for minibatch k have had max(0, k - (p - 1 - s)) updates.

In the paper: w(t+1) = w(t) - rate * gradient(w_1(t-n+1), w_2(t-n+2), ..., w_n(t)). After a drain, k counts from the
drain, and the updates before the drain are added.

A step clips the mean gradient of each layer, and of each weight outside the layers, by its own norm, as PyTorch's
clip_grad_norm_ does for one group of weights: clip_norm is the greatest. No stage needs to know what others have.

Each run is computed twice. `train_pipeline` simulates the stages event by event; a forward pass reads the newest
weights, and an assertion compares their version with the formula. `train_by_formula` has no pipeline: it builds one
graph over all stages for each minibatch and takes the versions from the formula. Both must agree to the last bit. One
stage must agree with plain PyTorch. Wrong definitions (other delays, no stashing, vertical sync, other drains, other groups that are clipped) are
run too, and each must change some loss by at least VISIBLE. The same run in f32 shows what a test must tolerate; the script
prints it.
"""

import copy
import heapq
import json
import pathlib
import random
import sys

import torch
import transformers
from safetensors.torch import save_file
from torch.func import functional_call

from late_gradients import check_nesterov, clip, norm
from record_runs import SEQUENCE, VOCABULARY, Data, make_model, make_optimizer, make_schedule, tensors, write_settings

HERE = pathlib.Path(__file__).resolve().parent
STEPS, LAYERS, EMBED = 12, 4, 8
STAGES, DRAINS = [2, 4], [[], [5], [5, 10]]
VISIBLE = 1e-3  # relative; a test in f32 can hold losses to 1e-5

COMMON = dict(optimizer="adamw", clip_norm=0.0, global_batch=4, accumulation=1, steps=STEPS)
MODELS = {
    "gpt2": (14, dict(
        model=transformers.GPT2Config(
            vocab_size=VOCABULARY, n_positions=SEQUENCE, n_embd=EMBED, n_inner=12, n_layer=LAYERS, n_head=2,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0, tie_word_embeddings=False),
        beta1=0.9, beta2=0.95, epsilon=1e-8, weight_decay=0.1, schedule="cosine", learning_rate=3e-2,
        minimum_learning_rate=1.5e-2, warmup_steps=3, seed=17, **COMMON)),
    "llama": (67, dict(
        model=transformers.LlamaConfig(
            vocab_size=VOCABULARY, max_position_embeddings=SEQUENCE, hidden_size=EMBED, intermediate_size=12,
            num_hidden_layers=LAYERS, num_attention_heads=2, num_key_value_heads=1, rms_norm_eps=1e-5,
            bos_token_id=0, eos_token_id=0, pad_token_id=None, tie_word_embeddings=False),
        beta1=0.8, beta2=0.99, epsilon=1e-6, weight_decay=0.3, schedule="linear", learning_rate=3e-2,
        minimum_learning_rate=1e-2, warmup_steps=2, seed=23, **COMMON)),
}
# Some gradients are clipped in each step, and some are not.
MODELS["clipped"] = (31, dict(MODELS["gpt2"][1], clip_norm=0.12, nesterov=1.0, seed=29))


# Stages. The layers are transformers' own. Their RMS norms and rotary angles would be f32 whatever the type of the
# weights; here they are f64.

def rms_norm(self, x):
    return self.weight * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.variance_epsilon))


transformers.models.llama.modeling_llama.LlamaRMSNorm.forward = rms_norm


def rotary(config):
    """cos and sin of the angles, [1, SEQUENCE, head size]: the elements of a pair are half a head apart."""
    size = config.hidden_size // config.num_attention_heads
    frequencies = config.rope_parameters["rope_theta"] ** -(torch.arange(0, size, 2, dtype=torch.float64) / size)
    angles = torch.outer(torch.arange(SEQUENCE, dtype=torch.float64), frequencies).repeat(1, 2)[None]
    return angles.cos(), angles.sin()


class Stage(torch.nn.Module):
    """Consecutive layers; the first stage has the embeddings too, the last one the final norm and the head."""

    def __init__(self, model, stage, stages):
        super().__init__()
        body, self.config = model.base_model, model.config
        self.is_gpt2 = self.config.model_type == "gpt2"
        layers = body.h if self.is_gpt2 else body.layers
        count = len(layers) // stages
        assert count * stages == len(layers)
        self.layers = layers[stage * count:(stage + 1) * count]
        self.first, self.last = stage == 0, stage == stages - 1
        if self.first:
            self.tokens = body.wte if self.is_gpt2 else body.embed_tokens
            self.positions = body.wpe if self.is_gpt2 else None
        if self.last:
            self.norm, self.head = body.ln_f if self.is_gpt2 else body.norm, model.lm_head

    def forward(self, x):
        """Takes tokens [samples, SEQUENCE] or the previous stage's output; the last stage returns logits."""
        if self.first:
            x = self.tokens(x)
            if self.is_gpt2:
                x = x + self.positions(torch.arange(SEQUENCE))
        more = {}
        if not self.is_gpt2:
            more["position_embeddings"] = [part.to(x.dtype) for part in rotary(self.config)]
        for layer in self.layers:
            x = layer(x, **more)
        return self.head(self.norm(x)) if self.last else x


def mean_loss(logits, rows):
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())


class Weights:
    """The versions of a stage's weights, by the number of their updates, and the optimizer of the newest."""

    def __init__(self, stage, run):
        self.stage, self.newest = stage, 0
        self.optimizer = make_optimizer(stage, run)
        self.schedule = make_schedule(self.optimizer, run)
        self.versions = {0: self.snapshot()}
        self.readers = {}  # by version: how many backward passes will still read it
        self.most = 1      # versions kept at a time

    def snapshot(self):
        return {name: parameter.detach().clone().requires_grad_() for name, parameter in self.stage.named_parameters()}

    def update(self, gradients):
        """Updates the newest weights, whichever version the gradients (by name) were computed with."""
        for name, parameter in self.stage.named_parameters():
            parameter.grad = gradients[name]
        self.optimizer.step()
        self.schedule.step()
        self.newest += 1
        self.versions[self.newest] = self.snapshot()
        self.forget()
        self.most = max(self.most, len(self.versions))

    def forget(self):
        """Drops the versions that no backward pass will read, except the newest."""
        self.versions = {number: weights for number, weights in self.versions.items()
                         if number == self.newest or self.readers.get(number)}

    def rate(self):
        return self.optimizer.param_groups[0]["lr"]


# The pipeline, event by event.

class Pipeline:
    """One worker for each stage. A worker knows its own state and what has arrived. `duration(kind)` is the time that a
    pass takes. `forward(stage, minibatch)` and `backward(stage, minibatch)` are called when a pass begins; its result
    arrives at the neighbour when it ends."""

    def __init__(self, stages, duration, forward, backward):
        self.stages, self.duration, self.forward, self.backward = stages, duration, forward, backward

    def run(self, first, end):
        """Minibatches first to end - 1, from an empty pipeline to an empty pipeline."""
        self.end, self.busy = end, [False] * self.stages
        self.next_forward, self.next_backward = [first] * self.stages, [first] * self.stages
        self.arrived = {("F", 0, minibatch) for minibatch in range(first, end)}
        self.now, self.events = 0.0, []  # the ends of passes
        for stage in range(self.stages):
            self.begin(stage)
        while self.events:
            self.now, stage, kind, minibatch = heapq.heappop(self.events)
            self.complete(stage, kind, minibatch)
            for stage in range(self.stages):
                self.begin(stage)
        assert self.next_backward == [end] * self.stages, "the pipeline is stuck"

    def begin(self, stage):
        """1F1B: a forward pass if fewer than p - s minibatches are under way, else a backward pass. If the one that is
        due cannot begin yet, the worker waits and does not do the other."""
        under_way = self.next_forward[stage] - self.next_backward[stage]
        if self.next_forward[stage] < self.end and under_way < self.stages - stage:
            kind, minibatch = "F", self.next_forward[stage]
        else:
            kind, minibatch = "B", self.next_backward[stage]
        if self.busy[stage] or (kind, stage, minibatch) not in self.arrived:
            return
        self.arrived.remove((kind, stage, minibatch))
        self.busy[stage] = True
        (self.forward if kind == "F" else self.backward)(stage, minibatch)
        heapq.heappush(self.events, (self.now + self.duration(kind), stage, kind, minibatch))

    def complete(self, stage, kind, minibatch):
        self.busy[stage] = False
        if kind == "F":
            self.next_forward[stage] += 1
            last = stage == self.stages - 1
            self.arrived.add(("B", stage, minibatch) if last else ("F", stage + 1, minibatch))
        else:
            self.next_backward[stage] += 1
            if stage > 0:
                self.arrived.add(("B", stage - 1, minibatch))


def segments(drains):
    return list(zip([0, *drains], [*drains, STEPS]))


def version(delays, stage, minibatch, drains):
    """The formula."""
    begin = max([drain for drain in drains if drain <= minibatch], default=0)
    return begin + max(0, minibatch - begin - delays[stage])


def delays_of(stages):
    return [stages - 1 - stage for stage in range(stages)]


def check_order(stages, drains):
    """The versions follow from the order of passes, however long passes take."""
    source = random.Random(3)
    for duration in [lambda kind: 1 if kind == "F" else 2] + [lambda kind: source.expovariate(1)] * 20:
        updates, read = [0] * stages, {}

        def forward(stage, minibatch):
            read[stage, minibatch] = updates[stage]

        def backward(stage, minibatch):
            assert updates[stage] == minibatch
            updates[stage] += 1

        pipeline = Pipeline(stages, duration, forward, backward)
        for begin, end in segments(drains):
            pipeline.run(begin, end)
        assert read == {(stage, minibatch): version(delays_of(stages), stage, minibatch, drains)
                        for stage in range(stages) for minibatch in range(STEPS)}


# Training.

class Run:
    """The state and the record of a training run."""

    def __init__(self, initial, data, run, stages):
        self.model = copy.deepcopy(initial)
        self.data, self.batch, self.settings = data, run["global_batch"], run
        self.weights = [Weights(Stage(self.model, stage, stages), run) for stage in range(stages)]
        self.loss, self.lr, self.held_out = [None] * STEPS, [[None] * STEPS for _ in range(stages)], []
        self.versions, self.grad_norms = copy.deepcopy(self.lr), copy.deepcopy(self.lr)

    def rows(self, minibatch):
        return self.data.rows(minibatch * self.batch, self.batch)

    def update(self, stage, minibatch, read, gradients):
        weights = self.weights[stage]
        self.versions[stage][minibatch] = read
        self.grad_norms[stage][minibatch] = norm(gradients)
        self.lr[stage][minibatch] = weights.rate()
        weights.update(clip(dict(zip(weights.versions[weights.newest], gradients)), self.settings))

    def evaluate(self):
        rows = torch.tensor(self.data.validation)
        with torch.no_grad():
            x = rows[:, :-1]
            for weights in self.weights:
                x = weights.stage(x)
            self.held_out.append(mean_loss(x, rows).item())


def train_pipeline(initial, data, run, stages, drains, stashing=True):
    """Without `stashing` (a wrong definition) a backward pass reads the newest weights."""
    result = Run(initial, data, run, stages)
    stashes = [{} for _ in range(stages)]  # by minibatch: version, input, output of the forward pass
    activations, gradients = {}, {}        # sent to (stage, minibatch)

    def forward(stage, minibatch):
        weights = result.weights[stage]
        number, rows = weights.newest, result.rows(minibatch)
        assert number == version(delays_of(stages), stage, minibatch, drains)
        x = activations.pop((stage, minibatch)).requires_grad_() if stage else rows[:, :-1]
        parameters = weights.versions[number]
        if not stashing:  # a copy that the backward pass may change
            parameters = {name: weight.detach().clone().requires_grad_() for name, weight in parameters.items()}
        y = functional_call(weights.stage, parameters, (x,))
        if stage == stages - 1:
            y = mean_loss(y, rows)
            result.loss[minibatch] = y.item()
        else:
            activations[stage + 1, minibatch] = y.detach().clone()
        weights.readers[number] = weights.readers.get(number, 0) + 1
        stashes[stage][minibatch] = number, parameters, x, y

    def backward(stage, minibatch):
        weights = result.weights[stage]
        number, parameters, x, y = stashes[stage].pop(minibatch)
        if not stashing:
            for name, weight in parameters.items():
                weight.data.copy_(weights.versions[weights.newest][name])
        found = torch.autograd.grad(y, [*parameters.values(), *([x] if stage else [])],
                                    gradients.pop((stage, minibatch), None))
        if stage:
            gradients[stage - 1, minibatch] = found[-1]
            found = found[:-1]
        weights.readers[number] -= 1
        weights.forget()
        result.update(stage, minibatch, number, found)

    pipeline = Pipeline(stages, lambda kind: 1 if kind == "F" else 2, forward, backward)
    for begin, end in segments(drains):
        pipeline.run(begin, end)
        assert not any(stashes) and not activations and not gradients
        assert all(weights.newest == end and list(weights.versions) == [end] for weights in result.weights)
        result.evaluate()
    longest = max(end - begin for begin, end in segments(drains))
    for stage, (weights, delay) in enumerate(zip(result.weights, delays_of(stages))):
        assert weights.most <= stages - stage, f"stage {stage} kept {weights.most} versions"
        assert weights.most == stages - stage or longest < 2 * delay
    return result


def train_by_formula(initial, data, run, stages, drains, delays):
    """One graph over all stages for each minibatch. Each stage's version follows from the formula."""
    result = Run(initial, data, run, stages)
    history = [[weights.versions[0]] for weights in result.weights]
    for minibatch in range(STEPS):
        rows = result.rows(minibatch)
        numbers = [version(delays, stage, minibatch, drains) for stage in range(stages)]
        used = [history[stage][number] for stage, number in enumerate(numbers)]
        x = rows[:, :-1]
        for weights, parameters in zip(result.weights, used):
            x = functional_call(weights.stage, parameters, (x,))
        loss = mean_loss(x, rows)
        result.loss[minibatch] = loss.item()
        gradients = iter(torch.autograd.grad(loss, [weight for parameters in used for weight in parameters.values()]))
        for stage, parameters in enumerate(used):
            result.update(stage, minibatch, numbers[stage], [next(gradients) for _ in parameters])
            history[stage].append(result.weights[stage].versions[minibatch + 1])
        if minibatch + 1 in [*drains, STEPS]:
            result.evaluate()
    return result


def train_plain(initial, data, run):
    """As a PyTorch user writes it, without stages."""
    model, losses = copy.deepcopy(initial), []
    optimizer = make_optimizer(model, run)
    schedule = make_schedule(optimizer, run)
    for minibatch in range(STEPS):
        optimizer.zero_grad()
        rows = data.rows(minibatch * run["global_batch"], run["global_batch"])
        loss = mean_loss(Stage(model, 0, 1)(rows[:, :-1]), rows)
        loss.backward()
        losses.append(loss.item())
        clipped = clip({name: weight.grad for name, weight in model.named_parameters()}, run)
        for name, weight in model.named_parameters():
            weight.grad = clipped[name]
        optimizer.step()
        schedule.step()
    return losses


# Checks.

def check_model(model, data, run):
    """All stages in order compute what transformers' model does, up to rounding of its parts in f32."""
    rows = data.rows(0, run["global_batch"])
    expected = model(input_ids=rows[:, :-1]).logits
    model.config._attn_implementation = "sdpa"  # eager attention needs a mask; llama's has a softmax in f32
    x = rows[:, :-1]
    for stage in range(LAYERS):
        x = Stage(model, stage, LAYERS)(x)
    difference = (x - expected).abs().max().item()
    assert difference < 1e-5, difference


def distance(run, other):
    return max(abs(a - b) / a for a, b in zip(run.loss, other.loss))


def check_wrong(right, initial, data, run, stages, drains):
    """The wrong definition that changes the losses least, and by how much."""
    delays = delays_of(stages)
    wrong = {"no stashing": train_pipeline(initial, data, run, stages, drains, stashing=False)}
    others = {"no delay": [0] * stages, "vertical sync": [stages - 1] * stages, "reversed": delays[::-1]}
    for stage in range(stages):
        for change in (-1, 1):
            if delays[stage] + change >= 0:
                others[f"stage {stage}: {change:+}"] = [d + change * (i == stage) for i, d in enumerate(delays)]
    for name, changed in others.items():
        wrong[name] = train_by_formula(initial, data, run, stages, drains, changed)
    if run["clip_norm"] != 0:
        wrong["no look-ahead"] = train_by_formula(initial, data, {**run, "nesterov": 0}, stages, drains, delays)
        for name, changed in {"by stage": {"clip_by": "stage"}, "by weight": {"clip_by": "weight"}, "not": {"clip_norm": 0}}.items():
            wrong[f"clipped {name}"] = train_by_formula(initial, data, {**run, **changed}, stages, drains, delays)
    for other in DRAINS:
        if other != drains:
            wrong[f"drains {other}"] = train_by_formula(initial, data, run, stages, other, delays)
    least = min(wrong, key=lambda name: distance(right, wrong[name]))
    return least, distance(right, wrong[least])


def without_key_bias(name, values):
    """A key bias has no gradient except rounding, which AdamW divides by its own size (see oracle_run_test.py)."""
    third = len(values) // 3
    return torch.cat([values[:third], values[2 * third:]]) if name.endswith("c_attn.bias") else values


def deviation_of_f32(right, initial, data, run, stages, drains):
    """How far the same run in f32 deviates: relative, the losses and the changes of tensors since the first step."""
    other = train_by_formula(copy.deepcopy(initial).float(), data, run, stages, drains, delays_of(stages))
    shares = []
    for (name, a), b, x in zip(right.model.named_parameters(), other.model.parameters(), initial.parameters()):
        difference, change = without_key_bias(name, (a - b).detach()), without_key_bias(name, (a - x).detach())
        shares.append((difference.norm() / change.norm()).item())
    return distance(right, other), max(shares)


def record(name, initial, data, run, stages, drains, folder):
    check_order(stages, drains)
    result = train_pipeline(initial, data, run, stages, drains)
    again = train_by_formula(initial, data, run, stages, drains, delays_of(stages))
    for key in ("loss", "lr", "versions", "grad_norms", "held_out"):
        assert getattr(result, key) == getattr(again, key), f"{name}: {key}"
    for a, b in zip(result.model.parameters(), again.model.parameters()):
        assert torch.equal(a, b), name
    assert all(rates == result.lr[0] for rates in result.lr)
    least, change = check_wrong(result, initial, data, run, stages, drains)
    assert change > VISIBLE, f"{name}: {least} changes losses by {change} only"

    weights = {key: p.detach().clone() for key, p in zip(tensors(result.model), result.model.parameters())}
    file = f"p{stages}" + "".join(f"_drain{drain}" for drain in drains)
    known = {"stages": stages, "drains": drains, "loss": result.loss, "lr": result.lr[0], "versions": result.versions,
             "grad_norms": result.grad_norms, "held_out_loss": result.held_out}
    if len(drains) < 2:
        save_file(weights, folder / f"{file}.safetensors", metadata={"format": "pt"})
    else:
        known["norms"] = {key: weight.norm().item() for key, weight in weights.items()}
    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in known.items())
    (folder / f"{file}.json").write_text("{\n" + lines + "\n}\n")
    loss, tensor = deviation_of_f32(result, initial, data, run, stages, drains)
    print(f"{name} {file}: loss {result.loss[0]:.6f} to {result.loss[-1]:.6f}, held out {result.held_out[-1]:.6f}; "
          f"of the wrong definitions \"{least}\" differs least, by {change:.1e}; f32 deviates by {loss:.1e} in losses, "
          f"{tensor:.1e} in changes of tensors")


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print(f"torch {torch.__version__}, transformers {transformers.__version__}")
    torch.set_num_threads(1)
    check_nesterov()
    content = (HERE / "runs/tokens.bin").read_bytes()
    tokens = torch.frombuffer(bytearray(content[1024:]), dtype=torch.uint16).tolist()
    for name, (seed, run) in MODELS.items():
        folder = pathlib.Path(sys.argv[1]) / name
        folder.mkdir(parents=True, exist_ok=True)
        initial = make_model(run["model"], torch.Generator().manual_seed(seed))
        initial.config.architectures = [type(initial).__name__]
        initial.config.save_pretrained(folder)
        save_file(tensors(initial), folder / "model.safetensors", metadata={"format": "pt"})
        write_settings(folder / "train.toml", run)

        data = Data(tokens, run["seed"])
        initial = initial.double().train()
        check_model(initial, data, run)
        assert train_plain(initial, data, run) == train_pipeline(initial, data, run, 1, []).loss
        for stages in STAGES:
            for drains in DRAINS:
                record(name, initial, data, run, stages, drains, folder)


if __name__ == "__main__":
    main()
