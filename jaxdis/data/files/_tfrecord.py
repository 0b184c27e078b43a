"""Read TFRecord files of ``tf.train.Example`` without TensorFlow.

A record is the length of its data (8 bytes, little-endian), a checksum of the length (4), the data, and a checksum of
the data (4). The official file is gzipped, which has a checksum of its own; those of records are not compared. The data
is a protocol buffer of named features, each a list of strings, floats or whole numbers; those of whole numbers are left
out.
"""

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

# Longer records than this are taken for damage.
_LONGEST = 2**30


def examples(path: Path) -> Iterator[dict[str, np.ndarray]]:
    """The features of every record: strings, joined, as uint8 and floats as float32. The file may be gzipped."""
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    with gzip.open(path) if zipped else path.open("rb") as file:
        number = 0
        try:
            while (data := _record(file)) is not None:
                yield _example(data)
                number += 1
        except (ValueError, EOFError, OSError, zlib.error) as error:
            raise ValueError(f"source: {path} is damaged in record {number} ({error}); copy the file again") from None


def _record(file) -> bytes | None:
    head = file.read(12)
    if not head:
        return None
    length = int.from_bytes(head[:8], "little")
    if len(head) == 12 and length > _LONGEST:
        raise ValueError(f"a record of {length:,} bytes")
    data, tail = file.read(length), file.read(4)
    if len(head) < 12 or len(data) < length or len(tail) < 4:
        raise ValueError("the file ends inside a record")
    return data


def _example(data: bytes) -> dict[str, np.ndarray]:
    """Fields by number: an example has features (1), these have names (1) and values (2), strings (1) or floats (2)."""
    arrays = {}
    for feature in (feature for features in _values(memoryview(data), 1) for feature in _values(features, 1)):
        name = b"".join(_values(feature, 1)).decode()
        for kind, entries in (field for value in _values(feature, 2) for field in _fields(value)):
            if kind == 1:
                arrays[name] = _joined(entries)
            elif kind == 2:
                arrays[name] = np.frombuffer(b"".join(_values(entries, 1)), "<f4")
    return arrays


def _joined(strings: memoryview) -> np.ndarray:
    rows = np.frombuffer(strings, np.uint8)
    if len(rows) % 3 == 0 and len(rows):
        # A list of strings of one byte each repeats the bytes 10 (the field), 1 (the length), and the string.
        rows = rows.reshape(-1, 3)
        if (rows[:, 0] == 10).all() and (rows[:, 1] == 1).all():
            return rows[:, 2]
    return np.frombuffer(b"".join(_values(strings, 1)), np.uint8)


def _values(message: memoryview, number: int) -> list[memoryview]:
    return [value for field, value in _fields(message) if field == number]


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Numbers and values of all fields; a value is the bytes of a string, a message or a fixed number."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == 0:
            length = _varint(message, at)[1] - at
        elif kind == 2:
            length, at = _varint(message, at)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise ValueError(f"a field of kind {kind}")
        if at + length > len(message):
            raise ValueError("a field is longer than its message")
        yield key >> 3, message[at : at + length]
        at += length


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """A number of seven bits per byte, lowest first, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(message):
            raise ValueError("a number is cut off")
        value |= (message[at] & 0x7F) << shift
        at += 1
        if message[at - 1] < 0x80:
            return value, at
    raise ValueError("a number is too long")
