"""Benchmarks: peers in their strongest form, interleaved, as ratios in one run."""

import os

# one thread for everybody; read when numpy is imported
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
