import pytest
from browser import browser
from clicked import clicks

from fmpair import FMPair
from fmpair.events.store import open_store


@pytest.fixture(scope="session")
def served_model():
    return FMPair(factors=4, epochs=5, history=3, threads=1).fit(clicks())


@pytest.fixture(scope="session")
def model_file(served_model, tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "model.fmpair"
    served_model.save(path)
    return path


@pytest.fixture
def store(tmp_path):
    """An empty event store."""
    own = open_store(tmp_path / "events.db")
    yield own
    own.close()


@pytest.fixture(scope="module")
def tab():
    """A tab of a Chromium."""
    with browser() as opened:
        yield opened
