#!/usr/bin/env python3
"""Ranks, hosts and launchers that die, stop or cannot be reached are named, and cost one restart."""

import ctypes
import glob
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time

from driver import SOURCE, main, read_safetensors
from hosts import HostsTest, read_losses

ENDLESS = 1_000_000
PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17


def flip_a_bit(process, found):
    """Flips a bit in the memory of a process, in the first of the bytes `found`."""
    with open(f"/proc/{process}/maps") as maps, open(f"/proc/{process}/mem", "r+b", buffering=0) as memory:
        ranges = [[int(bound, 16) for bound in line.split()[0].split("-")] for line in maps if " rw-" in line]
        ranges = [(begin, end) for begin, end in ranges if end - begin <= 1 << 30] # a sanitizer reserves more
        for begin, end in sorted(ranges, key=lambda bounds: bounds[0] - bounds[1]): # tensors are in the largest
            memory.seek(begin)
            place = memory.read(end - begin).find(found)
            if place >= 0:
                memory.seek(begin + place)
                memory.write(bytes([found[0] ^ 1]))
                return
    raise AssertionError(f"process {process} does not hold {found[:16]}")


def ptrace(request, thread):
    system = ctypes.CDLL(None, use_errno=True)
    if system.ptrace(request, thread, None, None) != 0:
        raise OSError(ctypes.get_errno(), f"ptrace {request:#x}")


def switches_of_member(process):
    """How often the thread that proves that a rank is alive has gone to sleep."""
    for thread in pathlib.Path(f"/proc/{process}/task").iterdir():
        if (thread / "comm").read_text() == "dtc member\n":
            return int(re.search(r"^voluntary_ctxt_switches:\s*(\d+)", (thread / "status").read_text(), re.M)[1])
    raise AssertionError(f"process {process} has no thread of its membership")


def hold_main_thread(process):
    """Stops it as a debugger does, but never while it holds a lock that its membership thread waits for: stopped there,
    the whole process would be as good as stopped, and would be named so, while no rank hangs there by itself."""
    for _ in range(20):
        ptrace(PTRACE_SEIZE, process)
        ptrace(PTRACE_INTERRUPT, process)
        time.sleep(0.5) # until the other thread would wait for that lock
        before = switches_of_member(process)
        time.sleep(1.0)
        if switches_of_member(process) > before:
            return
        ptrace(PTRACE_DETACH, process)
        time.sleep(0.1) # it leaves the lock
    raise AssertionError(f"the main thread of {process} always holds its membership's lock")


class Faults(HostsTest):
    def setUp(self):
        super().setUp()
        self.program = self.small("program", "--mesh", "dp=2", checkpoint_every=20, keep=2)

    def start_training(self, steps=ENDLESS, *more, options=()):
        return self.begin(self.on_hosts(1, self.program, "out", steps, *more, options=options))

    def test_a_killed_rank_is_named_and_all_end(self):
        for victim in (0, 1):
            with self.subTest(victim=victim):
                shutil.rmtree(self.directory / "out", ignore_errors=True)
                job = self.start_training()
                os.kill(self.ranks(self.program)[victim], signal.SIGKILL)
                self.ends(job, 4, within=10)
                self.assertIn(f"rank {victim} was lost", self.output.read_text())
                self.assertIn(f"dtc: error: rank {victim} failed first", self.output.read_text())
                for host in range(2):
                    record = (self.directory / f"out/flight-record.from-rank-{host}.txt").read_text()
                    self.assertRegex(record, rf"rank {host}: step \d+, \d+ commands")
                    self.assertRegex(record, r"s ago  step \d+  list '\w+', command \d+ \(")
                self.assertEqual(self.ranks(self.program), {})

    def test_a_job_that_is_started_again_ends_with_the_same_losses(self):
        steps = 400
        self.dtc("run", *self.words(self.program, "reference", steps))
        job = self.start_training(steps, options=("--max-restarts", "4"))
        for kill, victim in enumerate((1, 0)):
            self.await_words(f"checkpoint: {self.directory}/out/checkpoints/step-{60 + 100 * kill:06}")
            os.kill(self.ranks(self.program)[victim], signal.SIGKILL)
            self.await_words(f"starting again ({kill + 1} of 4) from the checkpoint after step")
        self.ends(job, 0, within=60)
        self.assertEqual(read_losses(self.directory / "out.losses"), read_losses(self.directory / "reference.losses"))

    def test_a_replica_that_goes_wrong_is_named_and_costs_a_restart(self):
        steps = 400
        # No row of 16 tokens reaches the last positions: training leaves them, and a mistake there, unchanged.
        self.program = self.small("program", "--mesh", "dp=2", checkpoint_every=20, keep=2, weight_decay=0)
        self.dtc("run", *self.words(self.program, "reference", steps))
        header, weights = read_safetensors(self.directory / f"reference/checkpoints/step-{steps:06}/model.safetensors")
        begin, end = next(entry["data_offsets"] for name, entry in header.items() if name.endswith("wpe.weight"))
        job = self.start_training(steps, options=("--max-restarts", "2"))
        self.await_words(f"checkpoint: {self.directory}/out/checkpoints/step-000060")
        flip_a_bit(self.ranks(self.program)[1], weights[begin + 2 * (end - begin) // 3:end])
        self.await_words("starting again (1 of 2) from the checkpoint after step")
        self.ends(job, 0, within=60)
        self.assertRegex(self.output.read_text(), r"after step \d+: '\S*wpe.weight' is not the same on all ranks that store it: "
                                                  r"ranks 0, 1 differ, and no majority says which is right; after step \d+ all")
        self.assertEqual(read_losses(self.directory / "out.losses"), read_losses(self.directory / "reference.losses"))

    def test_kills_in_every_place_cost_nothing(self):
        """Of the first and the last rank: forward, backward, in a collective, in the update, between steps, at a
        checkpoint."""
        places = {"forward": ("launch", "micro_last", 0, 30), "backward": ("launch", "micro_last", 100, 250),
                  "collective": ("exchange", "micro_last"), "update": ("launch", "update"), "between": ("between",),
                  "checkpoint": None}
        kills, steps = 2 * len(places), 28
        self.program = self.compile("demo", SOURCE / "examples/gpt-small", "--mesh", "dp=2", checkpoint_every=1, keep=2,
                                    eval_every=0, global_batch=4, validation_fraction=0)
        self.dtc("run", *self.words(self.program, "reference", steps))
        job = self.start_training(steps, options=("--max-restarts", kills))
        folder = self.directory / "out/checkpoints"
        for kill in range(kills):
            before = self.latest(folder)
            self.await_true(lambda: self.latest(folder) > before) # else it makes no progress
            place, victim = list(places)[kill // 2], kill % 2
            with self.subTest(place=place, victim=victim):
                said = len(self.output.read_text())
                self.kill_at(victim, places[place])
                self.await_words(f"starting again ({kill + 1} of {kills})")
                self.assertRegex(self.output.read_text()[said:], rf"rank {victim} was lost: it(s process on| was ended by signal 9)")
        self.ends(job, 0, within=90)
        self.assertEqual(read_losses(self.directory / "out.losses"), read_losses(self.directory / "reference.losses"))

    @staticmethod
    def latest(folder):
        return max((int(path.name.removeprefix("step-")) for path in folder.glob("step-??????")), default=0)

    def kill_at(self, rank, place):
        process = self.ranks(self.program)[rank]
        if place:
            subprocess.run([os.environ["DTC_STRIKE"], str(process), *map(str, place)], check=True,
                           stdout=subprocess.DEVNULL)
        else:
            self.await_true(lambda: list((self.directory / "out/checkpoints").glob("step-*.tmp")))
            os.kill(process, signal.SIGKILL)

    def test_a_second_death_while_it_starts_again_costs_another_start(self):
        steps = 200
        self.dtc("run", *self.words(self.program, "reference", steps))
        job = self.start_training(steps, options=("--max-restarts", "4"))
        self.await_words(f"checkpoint: {self.directory}/out/checkpoints/step-000060")
        os.kill(self.ranks(self.program)[1], signal.SIGKILL)
        self.await_words("starting again (1 of 4)")
        # Before it trains, and before its peer has met it.
        self.await_true(lambda: 0 in self.ranks(self.program))
        os.kill(self.ranks(self.program)[0], signal.SIGKILL)
        self.await_words("starting again (2 of 4) from the checkpoint after step")
        self.ends(job, 0, within=60)
        self.assertEqual(read_losses(self.directory / "out.losses"), read_losses(self.directory / "reference.losses"))

    def check_stops(self, victim):
        """A stop of three seconds is survived, and a permanent one is named."""
        job = self.start_training(ENDLESS, "--watchdog", "5")
        rank = self.ranks(self.program)[victim]
        os.kill(rank, signal.SIGSTOP)
        time.sleep(3)
        os.kill(rank, signal.SIGCONT)
        time.sleep(1)
        self.assertIsNone(job.poll(), self.output.read_text())
        os.kill(rank, signal.SIGSTOP)
        self.await_words(f"rank {victim} was lost: its process is stopped", seconds=8)
        self.ends(job, 4, within=20)
        self.assertEqual(self.ranks(self.program), {})

    def test_stops_of_the_first_rank(self):
        self.check_stops(0)

    def test_stops_of_the_second_rank(self):
        self.check_stops(1)

    def test_a_rank_that_hangs_is_named_with_its_command(self):
        """Its main thread is stopped as a debugger does; the thread that proves that the process is alive is not."""
        job = self.start_training(ENDLESS, "--watchdog", "4")
        hold_main_thread(self.ranks(self.program)[1])
        self.await_words(" was lost: ", seconds=60)
        self.ends(job, 4, within=25)
        # Where it was stopped while it waited itself, all ranks are named with what they wait for.
        self.assertRegex(self.output.read_text(),
                         r"rank 1 was lost: it hangs.*(list '\w+', command \d+|between command lists)|"
                         r"all ranks have waited for each other for \d+ s: rank 0 at .*rank 1 at ")

    def test_a_cut_link_is_named(self):
        job = self.start_training(ENDLESS, "--watchdog", "4")
        self.net.cut(1)
        self.await_words("rank 1 was lost: its host is unreachable", seconds=8)
        self.ends(job, 4, within=40)

    def check_cut_from(self, host):
        job = self.start_training(ENDLESS, "--watchdog", "5")
        self.net.cut_towards(host, 1 - host)
        self.await_words("rank 1 was lost: its host is unreachable", seconds=12)
        self.ends(job, 4, within=40)
        self.assertNotIn("SIGSTOP", self.output.read_text())

    def test_a_link_that_is_cut_away_from_the_first_host_is_named(self):
        self.check_cut_from(0)

    def test_a_link_that_is_cut_towards_the_first_host_is_named(self):
        self.check_cut_from(1)

    def test_nothing_outlives_the_launcher(self):
        job = self.start_training()
        before = set(glob.glob("/dev/shm/dtc-*/*"))
        job.send_signal(signal.SIGKILL)
        job.wait()
        end = time.monotonic() + 10
        while self.ranks(self.program) and time.monotonic() < end:
            time.sleep(0.1)
        self.assertEqual(self.ranks(self.program), {})
        # Leftovers of other jobs are removed as soon as their ranks have met.
        left = set(glob.glob("/dev/shm/dtc-*/*")) - before
        self.await_true(lambda: not any(os.path.exists(path) for path in left))

    def test_an_interrupt_stops_all_hosts_with_a_checkpoint(self):
        job = self.start_training()
        job.send_signal(signal.SIGTERM)
        self.ends(job, 128 + signal.SIGTERM, within=20)
        self.assertRegex(self.output.read_text(), r"stopped after step \d+ by signal 15")

    def test_it_listens_at_the_chosen_address_alone(self):
        self.start_training()
        for host in range(2):
            addresses = self.net.listening(host)
            self.assertTrue(addresses)
            for address in addresses:
                self.assertTrue(address.startswith(self.net.address(host) + ":"), addresses)

    def test_starts_without_progress_end_with_a_code_of_their_own(self):
        self.program = self.small("stuck", "--mesh", "dp=2", checkpoint_every=0)
        job = self.start_training(ENDLESS, options=("--max-restarts", "9"))
        for kill in range(2):
            while not self.ranks(self.program):
                time.sleep(0.02)
            os.kill(self.ranks(self.program)[1], signal.SIGKILL)
            time.sleep(1)
        self.ends(job, 6, within=20)
        self.assertIn("2 starts in a row ended without a newer checkpoint", self.output.read_text())


if __name__ == "__main__":
    main(at_once=6)
