"""What PyTorch has no function for and PipeDream's late gradients need: Nesterov's momentum with AdamW, and clipping of
each layer by itself. Used by record_runs.py and make_pipedream.py; check_nesterov needs optax, nothing else does."""

import re

import torch


class NesterovAdamW(torch.optim.Optimizer):
    """AdamW with Nesterov's momentum: NAdam (Dozat 2016) with a constant beta1 and AdamW's weight decay. PyTorch's own
    NAdam changes beta1 from step to step; optax.adamw(nesterov=True) is this formula, and check_nesterov compares."""

    def __init__(self, groups, run):
        super().__init__(groups, {"lr": run["learning_rate"]})
        self.run, self.t = run, 0

    @torch.no_grad()
    def step(self):
        self.t += 1
        a, b = self.run["beta1"], self.run["beta2"]
        for group in self.param_groups:
            for p in group["params"]:
                m, v = self.state.setdefault(p, {}).setdefault("moments", (torch.zeros_like(p), torch.zeros_like(p)))
                m.mul_(a).add_(p.grad, alpha=1 - a)
                v.mul_(b).addcmul_(p.grad, p.grad, value=1 - b)
                ahead = a * m / (1 - a**(self.t + 1)) + (1 - a) * p.grad / (1 - a**self.t)
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.sub_(group["lr"] * ahead / ((v / (1 - b**self.t)).sqrt() + self.run["epsilon"]))


def check_nesterov():
    """The optimizer with Nesterov's momentum against optax's."""
    import jax
    import optax

    jax.config.update("jax_enable_x64", True)
    run = dict(beta1=0.8, beta2=0.9, epsilon=1e-3, weight_decay=0.1, learning_rate=0.1)
    theirs = optax.adamw(0.1, b1=0.8, b2=0.9, eps=1e-3, weight_decay=0.1, nesterov=True)
    model = torch.nn.Linear(3, 2, bias=False).double()
    ours = NesterovAdamW([{"params": [model.weight], "weight_decay": run["weight_decay"]}], run)
    weights = jax.numpy.asarray(model.weight.detach().numpy())
    state = theirs.init(weights)
    for _ in range(5):
        gradient = torch.randn(2, 3, dtype=torch.float64)
        model.weight.grad = gradient
        ours.step()
        change, state = theirs.update(jax.numpy.asarray(gradient.numpy()), state, weights)
        weights = optax.apply_updates(weights, change)
        assert abs(model.weight.detach().numpy() - weights).max() < 1e-12


def norm(gradients):
    return sum(gradient.square().sum() for gradient in gradients).sqrt().item()


def clip(gradients, run):
    """Gradients by name, each group's by its own norm. Another `clip_by` than "layer" is a wrong definition."""
    if run["clip_norm"] == 0:
        return gradients
    groups, by = {}, run.get("clip_by", "layer")
    for name in gradients:
        layer = re.search(r"(^|\.)(h|layers)\.(\d+)\.", name)
        groups.setdefault({"layer": layer[3] if layer else name, "weight": name, "stage": ""}[by], []).append(name)
    result = {}
    for names in groups.values():
        scale = min(1.0, run["clip_norm"] / (norm([gradients[name] for name in names]) + 1e-6))
        result |= {name: gradients[name] * scale for name in names}
    return result
