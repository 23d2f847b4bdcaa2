#!/usr/bin/env python3
"""Event files for TensorBoard, read by a reader of our own, which is tested on a file from TensorBoard's own writer."""

import json
import math
import struct
import unittest
from datetime import datetime

from driver import SOURCE, DriverTest, write_tokens

MODEL = SOURCE / "test/e2e/oracle/gpt2"
RECORDED = SOURCE / "test/e2e/events"


def masked_crc(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    while data:
        length, crc = struct.unpack("<QI", data[:12])
        assert crc == masked_crc(data[:8]), "checksum of the length"
        event = data[12:12 + length]
        assert struct.unpack("<I", data[12 + length:16 + length])[0] == masked_crc(event), "checksum of the event"
        yield event
        data = data[16 + length:]


def fields(message):
    """(number, value) of a protobuf message."""
    def varint(at):
        value = shift = 0
        while True:
            byte = message[at]
            value |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if byte < 128:
                return value, at

    at = 0
    while at < len(message):
        tag, at = varint(at)
        kind = tag & 7
        if kind == 0:
            value, at = varint(at)
        elif kind in (1, 5):
            size, code = {1: (8, "<d"), 5: (4, "<f")}[kind]
            value, at = struct.unpack(code, message[at:at + size])[0], at + size
        else:
            size, at = varint(at)
            value, at = message[at:at + size], at + size
        yield tag >> 3, value


def read_events(path):
    """[{"time", "step", "version" or "status" or "values"}]"""
    events = []
    for record in records(path.read_bytes()):
        found = dict(fields(record))
        event = {"time": found[1], "step": found.get(2, 0)}
        if 3 in found:
            event["version"] = found[3].decode()
        if 5 in found:
            values = [dict(fields(value)) for number, value in fields(found[5]) if number == 1]
            event["values"] = {value[1].decode(): value[2] for value in values}
        if 7 in found:
            event["status"] = dict(fields(found[7]))[1]
        events.append(event)
    return events


def as_float(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


class TensorBoard(DriverTest):
    def setUp(self):
        super().setUp()
        self.data = write_tokens(self.directory / "tokens", 4000, 61)
        self.out = self.directory / "out"

    def test_the_reader_reads_what_tensorboard_writes(self):
        events = read_events(RECORDED / "recorded.tfevents")
        self.assertEqual(events[0]["version"], "brain.Event:2")
        self.assertEqual(events[1], {"time": 1700000000.5, "step": 2, "status": 1})
        expected = [(1, 5.25, 0.001), (2, 4.5, 0.0005), (300, -1e-30, 3e38)]  # as record.py has them
        self.assertEqual(events[2:], [{"time": 1700000000.5 + step, "step": step,
                                       "values": {"loss_metrics/global_avg_loss": as_float(loss), "lr": as_float(rate)}}
                                      for step, loss, rate in expected])

    def files(self):
        return sorted(self.out.glob("events.out.tfevents.*"))

    def hold(self, events, lines):
        """Compares the events of steps with lines of metrics.jsonl: the same figures."""
        self.assertEqual(len(events), len(lines))
        for event, line in zip(events, lines):
            self.assertEqual(event["step"], line.pop("step"))
            self.assertAlmostEqual(event["time"], datetime.fromisoformat(line.pop("time")).timestamp(), delta=0.002)
            self.assertEqual(event["values"], {key: as_float(value) for key, value in line.items()})

    def lines(self):
        return [json.loads(line) for line in (self.out / "metrics.jsonl").read_text().splitlines()]

    def test_a_run_and_one_that_goes_on(self):
        program = self.compile("program", MODEL, "--mesh", "dp=2", sequence_length=16, global_batch=4, eval_every=2,
                               validation_fraction=0.1)
        run = ["run", program, "--data", self.data, "--out", self.out, "--threads", 1, "--tensorboard"]
        self.assertIn(f"also for tensorboard --logdir {self.out}", self.dtc(*run, "--steps", 3))
        [first] = self.files()
        version, start, *events = read_events(first)
        self.assertEqual((version["version"], start["status"], start["step"]), ("brain.Event:2", 1, 1))
        self.assertEqual([event["step"] for event in events], [1, 2, 2, 3, 3])
        self.assertIn("validation_metrics/loss", events[2]["values"])
        self.hold(events, self.lines())

        self.dtc(*run, "--steps", 4, "--resume", self.out)
        second = next(path for path in self.files() if path != first)
        version, start, *events = read_events(second)
        self.assertEqual((start["status"], start["step"]), (1, 4))  # what was reported for step 4 is void
        self.hold(events, [line for line in self.lines() if line["step"] == 4])

        self.dtc(*run, "--eval-only", "--weights", self.out / "checkpoints/step-000004")
        third = next(path for path in self.files() if path not in (first, second))
        version, event = read_events(third)  # nothing is void
        self.assertTrue(math.isfinite(event["values"]["validation_metrics/loss"]))

    def test_only_where_asked_for(self):
        program = self.compile("program", MODEL, sequence_length=16, global_batch=4, validation_fraction=0)
        self.dtc("run", program, "--data", self.data, "--out", self.out, "--threads", 1, "--steps", 1)
        self.assertEqual(self.files(), [])

    def test_a_run_that_is_refused_leaves_nothing(self):
        program = self.compile("program", MODEL, sequence_length=16, global_batch=4, validation_fraction=0)
        self.dtc("run", program, "--data", self.data, "--out", self.out, "--tensorboard", "--weights", self.directory, code=3)
        self.assertFalse(self.out.exists())


if __name__ == "__main__":
    unittest.main()
