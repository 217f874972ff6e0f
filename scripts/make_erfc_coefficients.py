"""Print the Chebyshev coefficients in `qkv/ops/activations.py`. Needs mpmath.

erfc(x) = t exp(-x^2 + g(t)), t = 2 / (2 + x), x >= 0: g is smooth on (0, 1], so a short series in 2t - 1 is exact to
double precision.
"""

from mpmath import cos, e, erfc, fac2, log, mp, mpf, nstr, pi, sqrt

mp.dps = 60
N_NODES, N_TERMS = 120, 28


def scaled_erfc(x):
    """erfc(x) exp(x^2), by its asymptotic series where the product would be 0 times infinity."""
    if x < 25:
        return erfc(x) * e ** (x * x)
    terms = [(-1) ** k * (fac2(2 * k - 1) if k else 1) / (2 * x * x) ** k for k in range(40)]
    return sum(terms) / (x * sqrt(pi))


def g(t):
    return log(scaled_erfc(2 * (1 - t) / t) / t)


nodes = [cos(pi * (k + mpf(1) / 2) / N_NODES) for k in range(N_NODES)]
values = [g((y + 1) / 2) for y in nodes]
for j in range(N_TERMS):
    waves = (v * cos(pi * j * (k + mpf(1) / 2) / N_NODES) for k, v in enumerate(values))
    print(nstr((1 if j == 0 else 2) * sum(waves) / N_NODES, 17) + ",")
