"""Stores to test with: a file, and a PostgreSQL server of the tests' own."""

import pytest
from postgres_server import emptied, postgres

__all__ = ["postgres", "url"]


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request, tmp_path):
    """The URL of an empty store, of either kind."""
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'events.db'}"
    return emptied(request.getfixturevalue("postgres"))
