#!/usr/bin/env python3
"""How long many ranks of one machine take to meet: dtc's job server and PyTorch's TCPStore.

    compare_rendezvous.py --torch-python PYTHON [--build build] [--ranks 256] [--rounds 5]

Runs bench/hosts/rendezvous.cpp and bench/rendezvous_peer.py alternately and prints a table of medians. Needs root: the
store looks up the name of every peer that connects, which takes 0.1 s each where no name service answers. So the
addresses of this machine are given names for it.
"""

import statistics
import subprocess
import tempfile

from arguments import ROOT, comparison



def seconds(command):
    output = subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return [float(word) for word in output.stdout.split()]


def main():
    parser = comparison(__doc__, rounds=5)
    parser.add_argument("--ranks", type=int, default=256)
    args = parser.parse_args()
    with tempfile.NamedTemporaryFile("w") as names:
        names.write("127.0.0.1 localhost\n::1 localhost\n::ffff:127.0.0.1 localhost\n")
        names.flush()
        peer = ["unshare", "-m", "sh", "-c", f'mount --bind {names.name} /etc/hosts && exec "$@"', "peer", args.torch_python,
                ROOT / "bench/rendezvous_peer.py", args.ranks]
        ours, theirs = [], []
        for _ in range(args.rounds):
            ours.append(seconds([args.build / "bench/hosts/bench_rendezvous", args.ranks]))
            theirs.append(seconds(peer))
    print(f"| {args.ranks} ranks | dtc s | TCPStore s | ratio |\n|---|---|---|---|")
    for column, what in enumerate(("all have come", "all have met twice more")):
        a, b = (statistics.median(row[column] for row in rows) for rows in (ours, theirs))
        print(f"| {what} | {a:.2f} | {b:.2f} | {a / b:.2f} |")


if __name__ == "__main__":
    main()
