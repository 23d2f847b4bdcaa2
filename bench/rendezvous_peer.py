#!/usr/bin/env python3
"""How long many ranks take to meet in PyTorch's TCPStore: the peer of bench/hosts/rendezvous.cpp.

    rendezvous_peer.py [RANKS]

Processes are forked when torch is loaded, the store's first; each joins it and passes two barriers over it. Prints
seconds from before the first fork until the last process has joined, and until the last has passed both barriers.
"""

import datetime
import multiprocessing
import os
import socket
import sys
import time

import torch.distributed as dist


def barrier(store, name, ranks):
    if store.add(name, 1) == ranks:
        store.set(name + "/open", "1")
    store.wait([name + "/open"])


def rank(number, ranks, port, times):
    store = dist.TCPStore("127.0.0.1", port, ranks, is_master=False, timeout=datetime.timedelta(seconds=60))
    barrier(store, "all", ranks)
    times[2 * number] = time.monotonic()
    barrier(store, "first", ranks)
    barrier(store, "second", ranks)
    times[2 * number + 1] = time.monotonic()
    os._exit(0)


def serve(port, done):
    store = dist.TCPStore("127.0.0.1", port, None, is_master=True, wait_for_workers=False)
    done.wait()
    del store


def main():
    ranks = int(sys.argv[1]) if len(sys.argv) > 1 else 256
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = multiprocessing.get_context("fork")
    times, done = context.Array("d", 2 * ranks, lock=False), context.Event()
    begin = time.monotonic()
    server = context.Process(target=serve, args=(port, done))
    jobs = [context.Process(target=rank, args=(number, ranks, port, times)) for number in range(ranks)]
    for job in [server, *jobs]:
        job.start()
    for job in jobs:
        job.join()
    done.set()
    server.join()
    print(f"{max(times[0::2]) - begin:.3f} {max(times[1::2]) - begin:.3f}")


if __name__ == "__main__":
    main()
