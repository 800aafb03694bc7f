"""Assertions about errors: tests check the class and its fields. tests/search/test_errors.py checks the wording."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from idcwh_search.errors import IdcwhError


@contextmanager
def raises(
    kind: type[IdcwhError], *, path: object = ..., found: object = ..., expected: object = ..., problem: str = ""
) -> Iterator[pytest.ExceptionInfo[Any]]:
    """Passes if the block raises an error of this class, or of a subclass, whose fields have the given values.

    Args:
        kind: the class, such as CorruptFileError.
        path: the file, folder or option that the error is about, compared as str; None for no path.
        found, expected: compared with ==.
        problem: a part of the problem, for errors that differ only in their text.
    """
    with pytest.raises(kind) as caught:
        yield caught
    error = caught.value
    if path is not ...:
        assert error.path == (None if path is None else str(path)), error
    if found is not ...:
        assert error.found == found, error
    if expected is not ...:
        assert error.expected == expected, error
    assert problem in error.problem, error
