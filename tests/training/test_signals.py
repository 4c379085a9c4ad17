"""A signal is noted where signals arrive, and training elsewhere goes on without them."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from clearhead.training import Chosen, stop_on_signals, train
from training.tiny import tiny_job


def trained():
    with stop_on_signals() as stop:
        return list(train(tiny_job(stop=stop)))


def test_training_works_in_a_thread_where_no_signal_arrives():
    with ThreadPoolExecutor(1) as pool:
        assert isinstance(pool.submit(trained).result()[-1], Chosen)


def test_a_signal_raises_the_flag_and_a_second_interrupt_leaves_at_once():
    before = signal.getsignal(signal.SIGINT)
    with stop_on_signals() as stop:
        os.kill(os.getpid(), signal.SIGINT)
        assert stop.signal == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
