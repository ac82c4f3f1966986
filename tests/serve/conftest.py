import pytest
from clicked import clicks

from fmpair import FMPair


@pytest.fixture(scope="session")
def served_model():
    return FMPair(factors=4, epochs=5, history=3, threads=1).fit(clicks())


@pytest.fixture(scope="session")
def model_file(served_model, tmp_path_factory):
    path = tmp_path_factory.mktemp("served") / "model.fmpair"
    served_model.save(path)
    return path
