#!/usr/bin/env python3
"""Records recorded.tfevents, an event file as the package tensorboard 2.21 writes it: the reference for the tests'
reader.

Usage: record.py FOLDER    in a Python that has tensorboard
"""

import os
import pathlib
import sys

from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.event_file_writer import EventFileWriter

STEPS = [(1, 5.25, 0.001), (2, 4.5, 0.0005), (300, -1e-30, 3e38)]

if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    writer = EventFileWriter(str(folder))
    writer.add_event(event_pb2.Event(wall_time=1700000000.5, step=2, session_log=event_pb2.SessionLog(status=1)))
    for step, loss, rate in STEPS:
        values = [summary_pb2.Summary.Value(tag="loss_metrics/global_avg_loss", simple_value=loss),
                  summary_pb2.Summary.Value(tag="lr", simple_value=rate)]
        writer.add_event(event_pb2.Event(wall_time=1700000000.5 + step, step=step, summary=summary_pb2.Summary(value=values)))
    writer.close()
    [path] = folder.glob("events.out.tfevents.*")
    os.replace(path, pathlib.Path(__file__).parent / "recorded.tfevents")
