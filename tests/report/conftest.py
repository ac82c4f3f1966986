"""One comparison of real models, judged once for all tests of the report."""

import pytest
from toy_results import judged_world


@pytest.fixture(scope="session")
def world():
    return judged_world()
