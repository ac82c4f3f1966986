"""Every example on public data runs, with fewer epochs: apart from the others, to run beside them.

What full fits come to on these data is asked in test_real_data.py and in benchmarks/.
"""

import pytest
from example_runs import OF_PUBLIC_DATA, assert_reported, run_of

pytestmark = [pytest.mark.slow, pytest.mark.realdata]


@pytest.mark.parametrize("path", OF_PUBLIC_DATA, ids=lambda path: path.stem)
def test_an_example_on_public_data_runs_and_writes_its_report(path, tmp_path):
    assert_reported(run_of(path, tmp_path, epochs=2), tmp_path)
