#!/usr/bin/env python3
"""dtc calibrate --hosts: the measured rate of links between hosts, compared with the rate to which the system limits
them."""

import json
import re
import subprocess
import unittest

from driver import DTC, SANITIZED, SOURCE, TIMEOUT
from hosts import HostsTest

DEVICES = SOURCE / "examples/clusters/two_cores.textproto"


class CalibrateHosts(HostsTest):
    def calibrate(self, name, *arguments, code=0):
        hosts = ",".join(self.net.address(host) for host in range(self.hosts))
        command = self.net.on(0, DTC, "calibrate", "--hosts", hosts, "--devices", DEVICES, "--remote-shell",
                              self.net.remote_shell, "-o", self.directory / name, *arguments)
        # Over a slow link it takes 40 s where nothing else runs.
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=3 * TIMEOUT)
        self.assertEqual(done.returncode, code, done.stdout)
        return done.stdout

    def network(self, name):
        text = (self.directory / name).read_text()
        [level] = [part for part in re.split(r"\nlevels \{", text) if 'name: "network"' in part]
        return level

    @unittest.skipIf(SANITIZED, "it measures times")
    def test_a_limited_link_has_the_bandwidth_of_its_limit(self):
        self.net.limit("50mbps", burst="70kb")
        self.calibrate("slow.textproto")
        level = self.network("slow.textproto")
        self.assertIn("transport: TCP", level)
        self.assertAlmostEqual(float(re.search(r"bandwidth: (\S+)", level)[1]) / 50e6, 1, delta=0.1)
        [(seconds, processor)] = re.findall(r'"all_reduce"\s+ranks: 2\s+bytes: 16777216\s+seconds: (\S+)'
                                            r'(?:\s+processor_seconds: (\S+))?', level)
        self.assertAlmostEqual(float(seconds) / (16777216 / 50e6), 1, delta=0.1)  # what each sends, both ways at once
        # The rest is waiting for the link. The processor time may be zero, and a zero is not written.
        self.assertLess(float(processor or 0), 0.5 * float(seconds))

    def test_the_file_serves_to_simulate_programs_on_the_hosts(self):
        said = self.calibrate("cluster.textproto")
        self.assertIn("network: ", said)
        text = (self.directory / "cluster.textproto").read_text()
        self.assertIn("shared memory", text)  # from --devices
        self.assertRegex(text, r"nodes \{\s+count: 2")
        self.assertEqual(list(self.directory.glob(".dtc-calibrate*")), [])
        program = self.small("gpt", "--mesh", "dp=2")
        answer = json.loads(self.dtc("simulate", program, "--cluster", self.directory / "cluster.textproto", "--json"))
        sent = {name: link["sent_bytes"] for name, link in answer["ranks"][0]["links"].items()}
        self.assertGreater(sent["network"], 0)
        self.assertEqual(sent["shared memory"], 0)

    def test_wrong_hosts(self):
        for words, expected in [(["--hosts", "one"], "two hosts or more"), (["--hosts", "one:2,two:2"], "each once"),
                                (["--devices", DEVICES], "--devices requires --hosts"),
                                (["--remote-shell", "ssh"], "--remote-shell requires --hosts")]:
            with self.subTest(words=words):
                said = self.refused("calibrate", "-o", self.directory / "no.textproto", *words, code=2)
                self.assertIn(expected, said)


if __name__ == "__main__":
    unittest.main()
