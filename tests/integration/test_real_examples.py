"""Every example on public data runs as it stands: apart from the others, to run beside them."""

import pytest
from example_runs import OF_PUBLIC_DATA, assert_reported, run_of

pytestmark = [pytest.mark.slow, pytest.mark.realdata]


@pytest.mark.parametrize("path", OF_PUBLIC_DATA, ids=lambda path: path.stem)
def test_an_example_on_public_data_runs_as_it_stands_and_writes_its_report(path, tmp_path):
    assert_reported(run_of(path, tmp_path), tmp_path)
