"""The options of IDCWH, in a separate module so that the command line reads them without loading torch."""

from __future__ import annotations

from ..option_types import ABOVE_0, AT_LEAST_0, SHARE, one_of, option


class IDCWHOptions:
    """The weights of eq. 13, and choices that the paper leaves open. `smoothing` and `start` are not in the paper."""

    sigma2: float = option(4.0, ABOVE_0, "variance around the class centers", "method")
    gamma: float = option(1.0, AT_LEAST_0, "weight of the centers similarity L2", "method")
    beta: float = option(0.01, AT_LEAST_0, "weight of the quantization term Q", "method")
    l2_reduction: str = option(
        "sum/Z",
        one_of("sum/Z", "sum", "sum/ZC", "sum/n"),
        "divisor of the sum in L2",
        "method",
    )
    reduction: str = option("mean", one_of("mean", "sum"), "reduction of L1 and Q over the batch", "method")
    smoothing: float = option(0.0, SHARE, "label smoothing in L1", "method")
    start: str = option("normal", one_of("normal", "far"), "initial centers: N(0, 1) or distant codes", "method")
