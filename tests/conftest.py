"""What holds for every test.

Laws hold on slow and busy machines too, and are tried on the same examples everywhere;
`HYPOTHESIS_PROFILE=search` draws new examples on every run. Tests marked `realdata` need the
folder of public data that FMPAIR_DATA names.
"""

import os
import stat

import pytest
from hypothesis import settings

settings.register_profile("search", deadline=None)
settings.register_profile("same", deadline=None, derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


@pytest.fixture
def device(tmp_path_factory):
    """A device that swallows everything; not /dev/null, which a mistake could take from all."""
    path = tmp_path_factory.mktemp("devices") / "null"
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root can make devices")
    return path


def pytest_collection_modifyitems(items):
    if os.environ.get("FMPAIR_DATA"):
        return
    for item in items:
        if item.get_closest_marker("realdata"):
            item.add_marker(pytest.mark.skip(reason="FMPAIR_DATA is not set"))
