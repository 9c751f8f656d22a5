"""Fingerprints to compare: even and uneven ones, near ones and copies."""

import json
import random


def even_fingerprints(count, seed):
    """Yields `count` fingerprints: nine of ten are drawn evenly, the others differ from an earlier one in up to three
    bits.
    """
    draw = random.Random(seed)
    made = []
    for number in range(count):
        bits = draw.getrandbits(64)
        if number % 10 == 9:
            bits = draw.choice(made)
            for _ in range(draw.randrange(1, 4)):
                bits ^= 1 << draw.randrange(64)
        made.append(bits)
        yield bits


def fingerprints(count, seed):
    """Yields `count` fingerprints.

    Of each hundred, some sixty are drawn evenly, fifteen are copies of earlier ones, and fifteen differ from an earlier
    one in up to five bits. The others begin or end with the same bits, and fill some keys far above the bound.
    """
    draw = random.Random(seed)
    made = []
    for _ in range(count):
        kind = draw.random()
        if kind < 0.60 or len(made) < 10:
            bits = draw.getrandbits(64)
        elif kind < 0.75:
            bits = draw.choice(made)
        elif kind < 0.90:
            bits = draw.choice(made)
            for _ in range(draw.randrange(6)):
                bits ^= 1 << draw.randrange(64)
        elif kind < 0.94:
            bits = 0xFFFF_00F0_0000_0000 | draw.getrandbits(36)
        else:
            bits = draw.getrandbits(64) & 0x7FFF_FFFF_FFFF_0000 | 0x8000_0000_0000_ABCD
        made.append(bits)
        yield bits


def write_dump(path, all_fingerprints, count, name):
    """Writes what `simdb load` reads."""
    header = {
        "simdb_dump": 2, "scheme": "external", "plan": "4x16", "max_distance": 3, "sketch_bytes": 0,
        "min_similarity": 0, "created": 1, "documents": count,
    }
    with open(path, "w") as dump:
        dump.write(json.dumps(header) + "\n")
        for number, bits in enumerate(all_fingerprints):
            dump.write(f'{{"key":"{name}{number}","fingerprint":"{bits:016x}","seen":{number}}}\n')
