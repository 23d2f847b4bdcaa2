"""Two hosts as network namespaces whose link has a delay and a rate, simulated by a process between them
(bench/hosts/relay.cpp)."""

import os
import subprocess


class RelayedHosts:
    """Like Hosts of test/e2e/hosts.py. `delay` in milliseconds in each direction, `rate` in MB/s (0: unlimited)."""

    count = 2

    def __init__(self, relay, delay, rate):
        self.mark = f"dtcr{os.getpid()}"
        for host in range(2):
            self.run("ip", "netns", "add", self.name(host))
            inside = ["ip", "-n", self.name(host)]
            self.run(*inside, "link", "set", "lo", "up")
            self.run(*inside, "tuntap", "add", "dev", "data", "mode", "tap")
            self.run(*inside, "address", "add", f"{self.address(host)}/24", "dev", "data")
            self.run(*inside, "link", "set", "data", "mtu", "65000", "up")
        self.relay = subprocess.Popen([relay, self.name(0), self.name(1), str(delay), str(rate)])

    @staticmethod
    def run(*words):
        subprocess.run(words, check=True)

    def name(self, host):
        return f"{self.mark}h{host}"

    def address(self, host):
        return f"10.214.{os.getpid() % 256}.{host + 1}"

    def on(self, host, *command):
        return ["ip", "netns", "exec", self.name(host), *map(str, command)]

    def remove(self):
        self.relay.kill()
        self.relay.wait()
        for host in range(2):
            subprocess.run(["ip", "netns", "delete", self.name(host)], check=False)
