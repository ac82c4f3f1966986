"""`fmpair` with every list by the full product, as it is for small catalogues.

The workers of a service import the main module of their parent, so this holds for them as well.
"""

import sys

from fmpair.fitted import large_catalogue

large_catalogue.LARGE = 1 << 62

if __name__ == "__main__":
    from fmpair.cli import main

    sys.exit(main())
