"""Map a function over items in this process, in local processes, or on Dask, Ray or
Spark, using joblib.

Dask uses the current client, otherwise the scheduler in its configuration, otherwise a
local cluster; Ray and Spark connect as their own configuration says. Every call runs
with one thread of linear algebra, so that results do not depend on the engine or on the
number of workers.
"""

import os
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from typing import Any, TypeVar

from oddsmith.core import kernels
from oddsmith.core.arrays import whole
from oddsmith.core.errors import import_extra
from oddsmith.core.names import check_choice

__all__ = ["ENGINES", "each"]

ENGINES = ("serial", "local", "dask", "ray", "spark")
# Engines whose joblib backend returns each result as soon as it is ready.
_STREAM = ("local", "dask")
_NEEDS: dict[str, tuple[str, ...]] = {
    "serial": ("threadpoolctl",),
    "local": ("threadpoolctl", "joblib"),
    "dask": ("threadpoolctl", "joblib", "distributed"),
    "ray": ("threadpoolctl", "joblib", "ray"),
    "spark": ("threadpoolctl", "joblib", "pyspark", "joblibspark"),
}

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def each(
    function: Callable[[_Item], _Result],
    items: Sequence[_Item],
    *,
    engine: str = "local",
    workers: int | None = None,
) -> Iterator[tuple[int, _Result]]:
    """Yield (i, function(items[i])) in order of completion; `workers` is the number of
    processes (None: all cores).

    >>> sorted(each(abs, [-2, 3], engine="serial"))
    [(0, 2), (1, 3)]
    """
    check_choice("engine", engine, ENGINES)
    if workers is not None:
        whole("workers", workers)
    _require(engine)
    if engine == "serial":
        for i, item in enumerate(items):
            yield _call(function, i, item, None)
        return
    yield from _parallel(function, items, engine, workers)


def _require(engine: str) -> None:
    """Raise if the packages of an engine are not installed."""
    extra = "lab" if engine in ("serial", "local") else engine
    for name in _NEEDS[engine]:
        import_extra(name, f"engine {engine!r} needs", extra)


def _call(
    function: Callable[[_Item], _Result], i: int, item: _Item, choice: str | None
) -> tuple[int, _Result]:
    """Return the item's place and result, computed with one thread of linear algebra
    and the caller's choice of kernels."""
    from threadpoolctl import threadpool_limits

    if choice is not None:
        kernels.use(choice)
    with threadpool_limits(1):
        return i, function(item)


def _parallel(
    function: Callable[[_Item], _Result],
    items: Sequence[_Item],
    engine: str,
    workers: int | None,
) -> Iterator[tuple[int, _Result]]:
    import joblib

    call = joblib.delayed(_call)
    choice = kernels.choice()
    tasks = [call(function, i, item, choice) for i, item in enumerate(items)]
    settings: dict[str, Any] = {"n_jobs": workers or -1, "batch_size": 1}
    with ExitStack() as resources:
        _enter(engine, workers, resources)
        if engine in _STREAM:
            settings["return_as"] = "generator_unordered"
            yield from joblib.Parallel(**settings)(tasks)
            return
        # Other backends return a list, so submit a few tasks at a time.
        size = 4 * (workers or joblib.cpu_count())
        for start in range(0, len(tasks), size):
            yield from joblib.Parallel(**settings)(tasks[start : start + size])


def _enter(engine: str, workers: int | None, resources: ExitStack) -> None:
    """Use the engine as joblib's backend, and keep its connections open until
    `resources` closes."""
    import joblib

    if engine == "dask":
        _connect_dask(workers, resources)
    elif engine == "ray":
        _start_ray(workers, resources)
    elif engine == "spark":
        from joblibspark import register_spark

        # Local workers need the same Python to find the same packages.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        register_spark()
    backend = engine
    if engine == "local":
        backend = "loky"
        # Ignore the warning that joblib restarted a worker whose memory grew.
        resources.enter_context(warnings.catch_warnings())
        warnings.filterwarnings(
            "ignore", message="A worker stopped while some jobs", category=UserWarning
        )
    resources.enter_context(joblib.parallel_config(backend=backend))


def _connect_dask(workers: int | None, resources: ExitStack) -> None:
    """Connect to the current client, otherwise to the configured scheduler, otherwise
    to a new cluster of local processes."""
    import dask
    from distributed import Client, LocalCluster, get_client

    try:
        get_client()
    except ValueError:
        if dask.config.get("scheduler-address", None):
            resources.enter_context(Client())
            return
        # Use a free port, because several clusters may run on one machine.
        here = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
        cluster = LocalCluster(n_workers=workers, threads_per_worker=1, **here)
        resources.enter_context(closing(cluster))
        resources.enter_context(closing(Client(cluster)))


def _start_ray(workers: int | None, resources: ExitStack) -> None:
    import ray
    from ray.util.joblib import register_ray

    register_ray()
    if not ray.is_initialized():
        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False)
        resources.callback(ray.shutdown)
