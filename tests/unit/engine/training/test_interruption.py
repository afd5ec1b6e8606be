import signal

from engine.training.interruption import put_off_signals


def test_an_ignored_signal_stays_ignored() -> None:
    """As in background jobs of a shell."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with put_off_signals() as is_asked_to_stop:
            signal.raise_signal(signal.SIGINT)
            assert not is_asked_to_stop()
    finally:
        signal.signal(signal.SIGINT, before)
