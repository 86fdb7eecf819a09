"""The C library's heap, kept from growing beyond what is in use."""

import contextlib
import ctypes

M_MMAP_THRESHOLD = -3
THRESHOLD_BYTES = 128 << 10  # what it begins with


def give_back_freed_memory():
    """From now on a block of 128 KiB or more is given back to the system when it is freed. Does nothing where this is not glibc.

    By itself glibc raises the size from which it does so to that of the largest block it has seen freed, up to 32 MiB. What a
    backward pass frees then stays in holes of the heap: half as much again as the activations, measured by benchmarks/memory.py.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, THRESHOLD_BYTES)
