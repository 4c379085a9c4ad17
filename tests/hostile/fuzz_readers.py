"""Has atheris (libFuzzer) change the bytes of files that a reader takes, and tells what broke it.

It sees which branches of the reader each input takes, and goes on from those that take new ones.
What it finds belongs into ODD in readers.py.
"""

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["clearhead"]):
    from hostile.readers import READERS, tried

if __name__ == "__main__":
    reader, seconds, place = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    seeds = place / reader
    seeds.mkdir(parents=True)
    for number, seed in enumerate(READERS[reader][1]()):
        (seeds / str(number)).write_bytes(seed)
    limits = [f"-max_total_time={seconds}", "-timeout=20", "-rss_limit_mb=4000", "-max_len=20000"]
    prints = [f"-artifact_prefix={place / reader}-", "-print_final_stats=1", "-verbosity=0"]
    atheris.Setup([sys.argv[0], *limits, *prints, str(seeds)], lambda data: tried(reader, data))
    atheris.Fuzz()
