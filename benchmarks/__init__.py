"""Benchmarks: peers in their strongest form, interleaved, as ratios in one run."""

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one thread for everybody; read when numpy is imported
