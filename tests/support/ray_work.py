"""Work for tests of Ray: it lies in a module of its own, so that actors can import it;
and clusters of this machine.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

INSTALLED = find_spec("ray") is not None
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
NODE = {"node_ip_address": "127.0.0.1", "object_store_memory": 100 * 2**20}


# Read by Ray when it is imported: without, a cluster on loopback is looked for at the
# machine's outer address.
os.environ.update(QUIET)


def prepared() -> dict[str, str]:
    """An environment in which actors find the work of tests, and Ray is quiet."""
    places = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**QUIET, "PYTHONPATH": os.pathsep.join(places)}


@contextmanager
def cluster(head_cpus: int) -> Iterator[Any]:
    """A cluster of this machine, heard by itself alone; add nodes with `node`."""
    os.environ.update(prepared())
    from ray.cluster_utils import Cluster

    made = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": head_cpus, "include_dashboard": False, **NODE},
    )
    try:
        yield made
    finally:
        made.shutdown()


def node(on: Any, tries: int = 5) -> Any:
    """Another machine of one processor; Ray waits for one no longer than 30 s, which a
    busy machine may need.
    """
    for left in reversed(range(tries)):
        try:
            return on.add_node(num_cpus=1, **NODE)
        except Exception as error:
            if not left or "timed out during startup" not in str(error):
                raise
    raise AssertionError("it is returned or raised above")


def losing_its_node(mark: str, head: str, work: Callable[[Any], Any], item: Any) -> Any:
    """The first unit elsewhere than on the head ends its machine, once for a mark."""
    import ray

    lost = Path(mark)
    if ray.get_runtime_context().get_node_id() != head and not lost.exists():
        lost.touch()
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(600)  # it ends with its machine
    return work(item)
