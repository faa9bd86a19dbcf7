"""exp and log in branch-free forms that LLVM vectorises, accurate to 3 ulp; only for
the compiled kernels (numba)."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

__all__ = ["exp", "exp_ratio", "log", "log1p"]

Codegen: TypeAlias = Callable[[object, ir.IRBuilder, object, Sequence[object]], object]


@intrinsic  # type: ignore[untyped-decorator]
def _to_float(typing_context: object, bits: object) -> tuple[object, Codegen]:
    """Return the float64 with these 64 bits."""

    def codegen(
        context: object,
        builder: ir.IRBuilder,
        signature: object,
        args: Sequence[object],
    ) -> object:
        return builder.bitcast(args[0], ir.DoubleType())

    return types.float64(types.int64), codegen


@intrinsic  # type: ignore[untyped-decorator]
def _to_bits(typing_context: object, number: object) -> tuple[object, Codegen]:
    """Return the 64 bits of this float64."""

    def codegen(
        context: object,
        builder: ir.IRBuilder,
        signature: object,
        args: Sequence[object],
    ) -> object:
        return builder.bitcast(args[0], ir.IntType(64))

    return types.int64(types.float64), codegen


@njit(inline="always")  # type: ignore[untyped-decorator]
def exp_ratio(x: float) -> tuple[float, float]:
    """Return two numbers whose ratio is exp(x) for |x| <= 708 (Cody-Waite reduction and
    the rational function of Cephes)."""
    y = min(max(x, -708.0), 708.0)
    n = np.floor(y * 1.4426950408889634 + 0.5)
    r = (y - n * 6.93145751953125e-1) - n * 1.42860682030941723212e-6
    z = r * r
    odd = 1.26177193074810590878e-4 * z + 3.02994407707441961300e-2
    p = r * (odd * z + 1.0)
    even = 3.00198505138664455042e-6 * z + 2.52448340349684104192e-3
    q = (even * z + 2.27265548208155028766e-1) * z + 2.0
    power = _to_float((np.int64(n) + 1023) << 52)  # 2^n
    return (q + p) * power, q - p


@njit(inline="always")  # type: ignore[untyped-decorator]
def exp(x: float) -> float:
    """Return exp(x) for x <= 708; 0 below -708, NaN for NaN."""
    above, below = exp_ratio(x)
    y: float = above / below
    if x >= -708.0:
        return y
    if x < -708.0:
        return 0.0
    return x


@njit(inline="always")  # type: ignore[untyped-decorator]
def log(x: float) -> float:
    """Return ln x for normal x > 0, -inf for smaller x, NaN for x < 0 or NaN (the
    series of fdlibm's log)."""
    bits = _to_bits(x)
    k = (bits - 0x3FE6A09E667F3BCD) >> 52
    f = _to_float(bits - (k << 52)) - 1.0
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    odd = 2.222219843214978396e-01 + w * 1.531383769920937332e-01
    odd = w * (3.999999999940941908e-01 + w * odd)
    even = 1.818357216161805012e-01 + w * 1.479819860511658591e-01
    even = 2.857142874366239149e-01 + w * even
    even = z * (6.666666666666735130e-01 + w * even)
    half = 0.5 * f * f
    e = np.float64(k)
    low = s * (half + odd + even) + e * 1.90821492927058770002e-10
    y = e * 6.93147180369123816490e-01 - ((half - low) - f)
    y = y if x >= 2.2250738585072014e-308 else -np.inf
    if x >= 0.0:
        return y
    return np.nan


@njit(inline="always")  # type: ignore[untyped-decorator]
def log1p(x: float) -> float:
    """Return ln(1 + x) for x >= -1, corrected for the rounding of 1 + x."""
    u = 1.0 + x
    if u == 0.0:
        return -np.inf
    rounding = (u - 1.0) - x
    y: float = log(u) - rounding / u
    return y
