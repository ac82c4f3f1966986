"""What a run is compared by stands beside the tests of runs."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "experiment"))
