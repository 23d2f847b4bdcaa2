#!/usr/bin/env python3
"""Writes megatron16.bin/.idx and megatron32.bin/.idx in the format of Megatron-LM's indexed datasets, with NumPy alone.

The layout follows megatron/core/datasets/indexed_dataset.py: a header of magic, version, type code, number of sequences and of
document boundaries; then lengths (int32), pointers (int64, bytes) and boundaries (int64, sequences). Documents of several
sequences and an empty one are among them.

    python3 make_megatron.py   (in this folder; needs numpy)
"""

import numpy as np

# Documents, each a list of sequences.
SMALL = [[[5, 6, 7]], [[1], [2, 3]], [[65499]], [], [[9, 8, 7, 6, 5]]]
LARGE = [[[128000, 1, 2]], [[3]]]
CODES = {np.uint16: 8, np.int32: 4}


def write(name, documents, kind):
    sequences = [np.array(sequence, dtype=kind) for document in documents for sequence in document]
    lengths = np.array([len(sequence) for sequence in sequences], dtype=np.int32)
    widths = lengths.astype(np.int64) * np.dtype(kind).itemsize
    pointers = np.concatenate([[0], np.cumsum(widths)[:-1]]).astype(np.int64)
    boundaries = np.cumsum([0] + [len(document) for document in documents]).astype(np.int64)
    with open(name + ".bin", "wb") as file:
        for sequence in sequences:
            file.write(sequence.tobytes())
    with open(name + ".idx", "wb") as file:
        file.write(b"MMIDIDX\x00\x00")
        file.write(np.array([1], dtype="<u8").tobytes())
        file.write(np.array([CODES[kind]], dtype="u1").tobytes())
        file.write(np.array([len(lengths), len(boundaries)], dtype="<u8").tobytes())
        file.write(lengths.tobytes() + pointers.tobytes() + boundaries.tobytes())


write("megatron16", SMALL, np.uint16)
write("megatron32", LARGE, np.int32)
