"""Retrieval measured on what a network puts out: its codes of some pictures, searched in its codes of others."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from torch import Tensor

from idcwh_search.codes import pack_outputs
from idcwh_search.metrics import evaluate as metrics
from idcwh_search.metrics.result import Evaluation

from ..models.hash_model import Network
from .source import Source, encode


class Unmeasurable(Exception):
    """There is nothing to measure; the text says why."""


def evaluate(
    source: Source,
    network: Network,
    queries: Tensor,
    database: Tensor,
    labels: np.ndarray,
    at: Iterable[int] = metrics.CUTS,
) -> dict[int, Evaluation]:
    """For each code length. `queries` and `database` are positions in the source, whose labels are `labels`; those that
    cannot be read are left out. at: as of `metrics.evaluate`. Unmeasurable when no query has anything to find."""
    (queries, of_queries), (database, of_database) = (encode(source, network, x) for x in (queries, database))
    q, d = labels[queries.numpy()], labels[database.numpy()]
    check(q, d)
    return {
        bits: metrics.evaluate(
            pack_outputs(of_queries[bits].numpy()), q, pack_outputs(of_database[bits].numpy()), d, bits=bits, at=at
        )
        for bits in network.lengths
    }


def check(queries: np.ndarray, database: np.ndarray) -> None:
    """Unmeasurable when nothing can be measured on pictures of these labels."""
    if not len(queries):
        raise Unmeasurable("none of the queries could be read")
    if not len(database):
        raise Unmeasurable("none of the database images could be read")
    if queries.ndim == 2:
        relevant = np.any(queries.any(axis=0) & database.any(axis=0))
    else:
        relevant = np.isin(queries, database).any()
    if not relevant:
        raise Unmeasurable("no query shares a label with a database image")
