"""TFRecord files of ``tf.train.Example``, read without TensorFlow; every checksum is verified.

A record is the length of its data (8 bytes), a checksum of the length (4), the data, and a checksum of the data (4),
all little-endian. A checksum is CRC-32C, rotated and shifted by a constant. The data is a protocol buffer of named
features, each a list of strings, floats or whole numbers; those of whole numbers are left out.
"""

import functools
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

# The reversed polynomial of CRC-32C (Castagnoli).
_POLYNOMIAL = 0x82F63B78
_SHIFT = 0xA282EAD8
# Parts of the data whose checksums are computed side by side.
_LANES = 2**14
# Longer records than this are taken for damage.
_LONGEST = 2**30


def examples(path: Path) -> Iterator[dict[str, np.ndarray]]:
    """The features of every record: strings, joined, as uint8 and floats as float32. The file may be gzipped.

    Raises:
      ValueError: for a damaged file, with the number of the record.
    """
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
    if len(head) < 12 or masked_checksum(head[:8]) != int.from_bytes(head[8:], "little"):
        raise ValueError("the length of a record has another checksum")
    length = int.from_bytes(head[:8], "little")
    if length > _LONGEST:
        raise ValueError(f"a record of {length} bytes")
    data, tail = file.read(length), file.read(4)
    if len(data) < length or len(tail) < 4:
        raise ValueError("the file ends inside a record")
    if masked_checksum(data) != int.from_bytes(tail, "little"):
        raise ValueError("the data of a record have another checksum")
    return data


def masked_checksum(data: bytes) -> int:
    """The checksum as the format stores it."""
    value = crc32c(data)
    return ((value >> 15 | value << 17) + _SHIFT) & 0xFFFFFFFF


def crc32c(data: bytes) -> int:
    """CRC-32C.

    The register is linear over bits: parts of the data are run side by side from an empty register, and joined in pairs
    after the register of the first has run through as many zeros as the second is long.
    """
    table = _table()
    ones = np.frombuffer(data[:4].ljust(4, b"\0"), "<u4")[0] ^ 0xFFFFFFFF
    if len(data) < 4:  # the register's upper bytes are not yet used up
        state = 0xFFFFFFFF
        for byte in data:
            state = int(_bytes_table()[(state ^ byte) & 0xFF]) ^ state >> 8
        return state ^ 0xFFFFFFFF
    # A full register is an empty one that meets inverted bytes, and an empty one is not changed by leading zeros.
    lanes = 1 if len(data) < 2**12 else _LANES
    steps = -(-len(data) // (2 * lanes))
    words = np.zeros(2 * lanes * steps, np.uint8)
    words[len(words) - len(data) :] = np.frombuffer(data, np.uint8)
    words[len(words) - len(data) :][:4] = np.frombuffer(ones.astype("<u4").tobytes(), np.uint8)
    columns = np.ascontiguousarray(words.view("<u2").reshape(lanes, steps).T)
    state, through = np.zeros(lanes, np.uint32), np.uint32(1) << np.arange(32, dtype=np.uint32)
    for column in columns:
        state = table[(state ^ column) & 0xFFFF] ^ state >> 16
        through = table[through & 0xFFFF] ^ through >> 16
    while len(state) > 1:
        state = _applied(through, state[::2]) ^ state[1::2]
        through = _applied(through, through)
    return int(state[0]) ^ 0xFFFFFFFF


def _applied(images: np.ndarray, states: np.ndarray) -> np.ndarray:
    """The linear map that takes bit i to ``images[i]``, of each state."""
    bits = states[:, None] >> np.arange(32, dtype=np.uint32) & 1
    return np.bitwise_xor.reduce(bits * images, axis=1, dtype=np.uint32)


@functools.cache
def _bytes_table() -> np.ndarray:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ np.uint32(_POLYNOMIAL), table >> 1)
    return table


@functools.cache
def _table() -> np.ndarray:
    """What two bytes at a time do to the register."""
    single, words = _bytes_table(), np.arange(2**16, dtype=np.uint32)
    for _ in range(2):
        words = single[words & 0xFF] ^ words >> 8
    return words


def _example(data: bytes) -> dict[str, np.ndarray]:
    arrays = {}
    for features in _lengths(memoryview(data), 1):
        for feature in _lengths(features, 1):
            name = b"".join(bytes(part) for part in _lengths(feature, 1)).decode()
            for value in _lengths(feature, 2):
                strings, floats = _lengths(value, 1), _lengths(value, 2)
                if strings:
                    arrays[name] = _joined(strings[-1])
                elif floats:
                    arrays[name] = _floats(floats[-1])
    return arrays


def _joined(strings: memoryview) -> np.ndarray:
    """The bytes of a list of strings."""
    rows = np.frombuffer(strings, np.uint8)
    if len(rows) % 3 == 0 and len(rows):
        # A list of strings of one byte each repeats the bytes 10 (the field), 1 (the length), and the string.
        rows = rows.reshape(-1, 3)
        if (rows[:, 0] == 10).all() and (rows[:, 1] == 1).all():
            return rows[:, 2]
    return np.frombuffer(b"".join(_lengths(strings, 1)), np.uint8)


def _floats(numbers: memoryview) -> np.ndarray:
    parts = [value for number, value in _fields(numbers) if number == 1]
    return np.frombuffer(b"".join(parts), "<f4")


def _lengths(message: memoryview, number: int) -> list[memoryview]:
    """The values of one field of a message."""
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
