"""The options of IDCWH, apart from its loss so that the command line lists them without loading torch."""

from __future__ import annotations

from ..option_types import ABOVE_0, AT_LEAST_0, SHARE, one_of, option


class IDCWHOptions:
    """The weights and readings of eq. 13 that a run may set. `smoothing` and `start` go beyond the paper."""

    sigma2: float = option(4.0, ABOVE_0, "variance around the class centers", "method")
    gamma: float = option(1.0, AT_LEAST_0, "weight of the centers similarity L2", "method")
    beta: float = option(0.01, AT_LEAST_0, "weight of the quantization term Q", "method")
    l2_reduction: str = option(
        "sum/Z",
        one_of("sum/Z", "sum", "sum/ZC", "sum/n"),
        "divisor of the sum in L2",
        "method",
    )
    reduction: str = option("mean", one_of("mean", "sum"), "L1 and Q over the batch", "method")
    smoothing: float = option(0.0, SHARE, "label smoothing in L1", "method")
    start: str = option("normal", one_of("normal", "far"), "first centers: N(0, 1), or codes far apart", "method")
