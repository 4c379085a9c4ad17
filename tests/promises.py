"""What the program promises, by number; a test that holds it to one is marked `pytest.mark.promise(number, figure)`.

`script/docs` writes docs/reliability.md from both. A promise without a test fails the build, unless it is named here as
not kept yet.
"""

PROMISES = {
    1: "Training survives a power cut at any moment: at most the work since the last save is lost.",
    2: "A run that was interrupted and resumed is, bit for bit, the run that was not.",
    3: "The tests of resuming can fail: whatever a checkpoint leaves out is noticed.",
    4: "A damaged checkpoint is never loaded, and a good one never refused.",
    5: "A signal stops training cleanly: saved, nothing left lying about, and told by the exit code.",
    6: "A process that is lost costs a restart and not the run.",
    7: "A number that is not finite never reaches the weights.",
    8: "A full disk keeps the last good checkpoint.",
    9: "It learns.",
    10: "A model of an earlier release still loads, and says what it said.",
    11: "Opening a model never runs code.",
    12: "Hostile files and odd uses fail fast, with a clear line.",
    13: "No path leads out of a run folder.",
    14: "Clients of LibreTranslate work unchanged.",
    15: "Clients of OpenAI's API work unchanged.",
    16: "Bad input never makes the server fail.",
    17: "A server that is full says so at once.",
    18: "Work stops when the client leaves.",
    19: "A server that is asked to stop finishes what it has begun.",
    20: "It stays steady under load.",
    21: "Batching never changes an answer.",
    22: "A stream is the same text as the whole.",
    23: "One line in, one line out.",
    24: "It is safe by default.",
    25: "The page is safe.",
    26: "Metrics and logs leak nothing.",
    27: "Errors are clear: what, where, and what to do.",
    28: "The same data make the same run.",
}

NOT_YET: dict[int, str] = {}
"""Promises that no test holds yet, and why; a promise that has a test may not stand here."""
