"""Export: what was learned, for programs that know nothing of fmpair."""

from fmpair.export.write import FORMATS, export

__all__ = ["FORMATS", "export"]
