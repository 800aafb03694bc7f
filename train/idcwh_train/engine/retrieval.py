"""The retrieval metrics of a network, from the codes of queries and of a database."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from torch import Tensor

from idcwh_search.codes import pack_outputs
from idcwh_search.metrics import evaluate as metrics
from idcwh_search.metrics.result import Evaluation

from ..models.hash_model import Network
from .source import Source, encode


class EvaluationError(Exception):
    """An evaluation that is not possible. The message is the reason."""


def evaluate(
    source: Source,
    network: Network,
    queries: Tensor,
    database: Tensor,
    labels: np.ndarray,
    at: Iterable[int] = metrics.CUTS,
) -> dict[int, Evaluation]:
    """Returns the evaluation of each code length. Images that cannot be read are skipped.

    Args:
        queries, database: positions in the source.
        labels: the labels of the source's images.
        at: as for `metrics.evaluate`.

    Raises EvaluationError if no query has a relevant image.
    """
    (queries, query_h), (database, database_h) = (encode(source, network, x) for x in (queries, database))
    q, d = labels[queries.numpy()], labels[database.numpy()]
    check(q, d)
    return {
        bits: metrics.evaluate(
            pack_outputs(query_h[bits].numpy()), q, pack_outputs(database_h[bits].numpy()), d, bits=bits, at=at
        )
        for bits in network.lengths
    }


def check(queries: np.ndarray, database: np.ndarray) -> None:
    """Raises EvaluationError if no image of the database is relevant to a query.

    queries, database: their labels, int64 [n] or bool [n, C].
    """
    if not len(queries):
        raise EvaluationError("none of the queries could be read")
    if not len(database):
        raise EvaluationError("none of the database images could be read")
    if queries.ndim == 2:
        relevant = np.any(queries.any(axis=0) & database.any(axis=0))
    else:
        relevant = np.isin(queries, database).any()
    if not relevant:
        raise EvaluationError("no query shares a label with a database image")
