#!/usr/bin/env python3
"""The demo model on several hosts has the losses that it has on one."""

import unittest

from driver import SOURCE
from hosts import HostsTest

DEMO = SOURCE / "examples/gpt-small"


class Losses(HostsTest):
    """The demo model, on one host and on several."""

    hosts = 4

    def demo(self, name, *arguments):
        return self.compile(name, DEMO, *arguments, "--config", DEMO / "train.toml", steps=8, checkpoint_every=0,
                            eval_every=0, global_batch=8)

    def test_four_ranks_on_one_two_and_four_hosts(self):
        for name, mesh, strategy in (("ddp", "dp=4", "ddp"), ("megatron-sp", "dp=2,tp=2", "megatron-sp"),
                                     ("zero3", "dp=4", "zero3")):
            program = self.demo(name, "--mesh", mesh, "--strategy", strategy)
            self.dtc("run", *self.words(program, f"{name}-one", 8))
            for hosts, per_host in ((4, 1), (2, 2)):
                with self.subTest(strategy=name, hosts=hosts):
                    self.hosts = hosts
                    out = f"{name}-{hosts}"
                    self.finish(self.on_hosts(per_host, program, out, 8))
                    self.assert_close(out, f"{name}-one")

    def test_two_ranks_on_two_hosts(self):
        self.hosts = 2
        for name, mesh in (("ddp", "dp=2"), ("megatron-sp", "tp=2"), ("zero3", "dp=2")):
            with self.subTest(strategy=name):
                program = self.demo(name, "--mesh", mesh, "--strategy", name)
                self.dtc("run", *self.words(program, f"{name}-one", 8))
                self.finish(self.on_hosts(1, program, f"{name}-two", 8))
                self.assert_close(f"{name}-two", f"{name}-one")


if __name__ == "__main__":
    unittest.main()
