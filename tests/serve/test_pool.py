"""Promises 21, 22 and 18 at their root: neighbours change nothing, streams are wholes, leaving frees."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clearhead
from clearhead.errors import RequestError, TextError
from clearhead.serve.pool import MicroBatcher, Pool, Ticket
from clearhead.tasks.task import Kept

WORDS = [
    "the",
    "cat",
    "sees",
    "a",
    "dog",
    "12",
    "🐈‍⬛",
    "猫",
    "한국",
    "bread",
    "?",
    "ein",
    "Hund",
    "\u200d",
]
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=9).map(" ".join)
ways = st.fixed_dictionaries(
    {"temperature": st.sampled_from([0.0, 0.8]), "seed": st.integers(0, 3)},
    optional={
        "beam": st.sampled_from([1, 3]),
        "no_repeat_ngram": st.just(2),
        "min_length": st.just(3),
    },
)


@pytest.fixture(scope="module")
def pool():
    found = Pool("test", n_threads=2)
    yield found
    found.close()
    for thread in found.threads:
        thread.join(5)
        assert not thread.is_alive()


@pytest.fixture(scope="module")
def users(runs):
    return {name: clearhead.load(runs[name]) for name in ("en-de", "chat", "bard")}


def together(jobs):
    """The results of jobs that begin at the same moment, each in a thread."""
    barrier = threading.Barrier(len(jobs))

    def begun(job):
        barrier.wait()
        return job()

    with ThreadPoolExecutor(len(jobs)) as threads:
        return list(threads.map(begun, jobs))


@pytest.mark.promise(21, "up to 16 together: equal ids, log-probabilities within 1e-5")
@given(st.lists(st.tuples(texts, ways), min_size=2, max_size=16))
@settings(max_examples=12)
def test_an_answer_is_the_same_alone_and_in_a_crowd(pool, users, asked):
    translator = users["en-de"]
    alone = [translator.translate(text, **how) for text, how in asked]
    jobs = [
        lambda text=text, how=how: translator.by(Ticket(pool, 60)).translate(text, **how)
        for text, how in asked
    ]
    for found, expected in zip(together(jobs), alone, strict=True):
        assert found.ids == expected.ids
        assert found.log_probs == pytest.approx(expected.log_probs, abs=1e-5)


@pytest.mark.promise(22, "pieces joined are the whole, over bytes")
@given(st.lists(st.tuples(texts, st.integers(0, 5)), min_size=1, max_size=8))
@settings(max_examples=15)
def test_a_stream_in_a_crowd_is_what_is_said_alone(pool, users, asked):
    """Models over bytes cut through characters: half of one waits for its other half."""
    bot = users["chat"]
    options = {"temperature": 1.0, "max_length": 25}
    alone = [bot.answer([text], seed=seed, **options) for text, seed in asked]

    def job(text, seed):
        pieces = Kept(bot.by(Ticket(pool, 60)).answering([text], seed=seed, **options))
        return list(pieces), pieces.value

    jobs = [lambda text=text, seed=seed: job(text, seed) for text, seed in asked]
    for (pieces, found), expected in zip(together(jobs), alone, strict=True):
        assert "".join(pieces) == found.text == expected.text
        assert found.ids == expected.ids
        assert found.log_probs == pytest.approx(expected.log_probs, abs=1e-5)


@pytest.mark.parametrize("stop", ["a", "e ", "\n"])
def test_a_text_that_stops_early_is_the_same_though_the_pool_runs_ahead(pool, users, stop):
    options = {"temperature": 1.0, "max_length": 150, "seed": 2, "stop": [stop]}
    alone = users["bard"].write("the cat", **options)
    found = users["bard"].by(Ticket(pool, 60)).write("the cat", **options)
    assert (found.text, found.ids) == (alone.text, alone.ids)
    assert found.log_probs == pytest.approx(alone.log_probs, abs=1e-5)


def test_glossary_and_guard_work_through_the_pool(pool, users):
    translator = users["en-de"]
    for options in ({"glossary": {"cat": "Hund 12"}}, {"guard": True, "beam": 1, "max_extra": 60}):
        alone = translator.translate("the cat sees", **options)
        found = translator.by(Ticket(pool, 60)).translate("the cat sees", **options)
        assert (found.text, found.notes) == (alone.text, alone.notes)


def test_who_leaves_is_out_before_the_second_step(pool, users):
    ticket = Ticket(pool, 60)
    pieces = users["bard"].by(ticket).stream("the cat", max_length=2_000)
    next(pieces)
    assert pool.n_inside == 1
    ticket.leave()
    with pytest.raises(RequestError, match="client has left"):
        list(pieces)
    n_steps = pool.n_steps
    wait_until(lambda: not pool.n_inside)
    assert pool.n_steps - n_steps <= 2


def test_a_deadline_ends_a_job_inside_and_one_that_waits(pool, users):
    for seconds in (0.05, -1):
        with pytest.raises(RequestError, match="too long") as found:
            users["bard"].by(Ticket(pool, seconds)).write("the cat", max_length=2_000)
        assert found.value.status == 504
    wait_until(lambda: not pool.n_inside and not pool.waiting)


def test_a_step_that_fails_hurts_its_group_alone(users, monkeypatch):
    pool = Pool("failing")
    translator = users["en-de"]
    model = translator.flat[0]
    monkeypatch.setattr(
        type(model), "read", lambda *_: (_ for _ in ()).throw(MemoryError("no room"))
    )
    with pytest.raises(MemoryError, match="no room"):
        translator.by(Ticket(pool, 60)).translate("the cat")
    monkeypatch.undo()
    assert translator.by(Ticket(pool, 60)).translate("the cat") == translator.translate("the cat")
    pool.close()


def test_questions_are_answered_at_once_and_the_wrong_one_alone_is_refused():
    calls = []
    first, release = threading.Event(), threading.Event()

    def answer(questions):
        calls.append(questions)
        if questions == ["first"]:
            first.set()
            release.wait(5)
        if "wrong" in questions:
            raise TextError("wrong", "")
        return [question.upper() for question in questions]

    ask = MicroBatcher(answer)
    with ThreadPoolExecutor(4) as threads:
        begun = threads.submit(ask, ["first"])
        first.wait(5)
        later = [threads.submit(ask, questions) for questions in (["a", "b"], ["wrong"], ["c"])]
        wait_until(lambda: len(ask.waiting) == 3)
        release.set()
        assert begun.result() == ["FIRST"]
        assert later[0].result() == ["A", "B"]
        assert later[2].result() == ["C"]
        with pytest.raises(TextError):
            later[1].result()
    assert sorted(calls[1]) == ["a", "b", "c", "wrong"]


def wait_until(holds, seconds=5.0):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.002)
