"""Benchmarks: peers in their strongest form, interleaved, as ratios in one run."""
