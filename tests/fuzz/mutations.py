"""A simple mutator: what damage and malice do to the bytes of a file."""

import random

ODD = (
    b"\0",
    b"\xff" * 8,
    b"1e400",
    b"null",
    b"true",
    b"{}",
    b"[]",
    b"-1",
    b'"\\u001b[31m"',
    b"9" * 400,
)


def mutate(data: bytes, rng: random.Random) -> bytes:
    """One to three changes of some kind."""
    for _ in range(rng.randint(1, 3)):
        data = _mutated(data, rng)
    return data


def _mutated(data: bytes, rng: random.Random) -> bytes:
    if not data:
        return rng.choice(ODD)
    start = rng.randrange(len(data))
    stop = min(len(data), start + rng.choice((1, 2, 4, 16, 256)))
    kind = rng.randrange(6)
    if kind == 0:
        return data[:start] + bytes([data[start] ^ (1 << rng.randrange(8))]) + data[start + 1 :]
    if kind == 1:
        return data[:start]
    if kind == 2:
        return data[:start] + data[stop:]
    if kind == 3:
        return data[:start] + rng.choice(ODD) + data[stop:]
    if kind == 4:
        return data[:stop] + data[start:stop] * rng.randint(1, 50) + data[stop:]
    return data[:start] + rng.randbytes(stop - start) + data[stop:]
