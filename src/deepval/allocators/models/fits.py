"""Conditions under which fits repeat to the bit: one thread, so that sums are taken in one order."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def one_thread() -> Iterator[None]:
    """Hold linear algebra and OpenMP to one thread: at these sizes that is also the fastest."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        yield
