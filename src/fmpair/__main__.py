"""`python -m fmpair` is `fmpair`."""

from fmpair.cli import main

if __name__ == "__main__":
    main()
