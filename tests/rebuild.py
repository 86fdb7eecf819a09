"""`make cold-start` as the tests call it: on one thread, until a SIGUSR1 says that both cores are free."""

import signal

import torch

from rlmlib.tiny import cold_start

if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, lambda *_: torch.set_num_threads(2))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
    cold_start.main()
