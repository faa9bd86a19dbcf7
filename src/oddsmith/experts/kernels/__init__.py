"""Compiled kernels (numba) for hot loops; `core.kernels` decides whether they are
used."""

__all__: list[str] = []
