"""Memory while millions of pairs are prepared and gone through, measured in processes of their own."""

import json
import subprocess
import sys

import pytest

PROGRAM = """
import json, random, resource, sys
from pathlib import Path

import numpy as np
from clearhead.data.batches import ByLength, pair_batch
from clearhead.data.store import pair_encoding
from clearhead.data.store import prepare

class Synthetic:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        draw = random.Random(0)
        for i in range(self.n):
            length = draw.randrange(4, 24)
            yield "x" * length, "y" * (length + i % 5)

class Letters:
    vocab_size, fingerprint = 256, "letters"

    def reading(self, ids):
        return [*ids, 2]

    def encode_batch(self, texts):
        return [list(text.encode()) for text in texts]

n, cache = int(sys.argv[1]), Path(sys.argv[2])
store = prepare(cache / str(n), Synthetic(n), pair_encoding(Letters(), Letters()))
batches = ByLength(store, pair_batch, 4_096, seed=0)
seen = np.zeros(n, bool)
for batch in map(batches.batch, range(len(batches))):
    seen[batch.indices.numpy()] = True
assert seen.all()
print(json.dumps(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024))
"""


def peak(n_pairs, cache):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(n_pairs), str(cache)],
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has other units elsewhere")
def test_memory_stays_flat_from_one_to_five_million_pairs(tmp_path):
    one, five = peak(1_000_000, tmp_path), peak(5_000_000, tmp_path)
    assert five < 1.5e9
    assert five < 1.2 * one
