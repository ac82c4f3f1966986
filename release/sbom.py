"""The parts of an installed fmpair as CycloneDX: python release/sbom.py PYTHON > fmpair.cdx.json.

PYTHON is that of an environment in which nothing else is installed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

# Run by the environment that is listed: what is installed there, and the licence each names.
ASK = """
import json
from importlib.metadata import distributions
found = []
for one in distributions():
    data = one.metadata
    classified = [c.split(" :: ")[-1] for c in data.get_all("Classifier", []) if "License ::" in c]
    licence = data["License-Expression"] or "; ".join(classified) or (data["License"] or "")[:80]
    needs = [need.split(";")[0].strip() for need in one.requires or [] if "extra ==" not in need]
    found.append([data["Name"], one.version, licence.splitlines()[0] if licence else "", needs])
print(json.dumps(sorted(found)))
"""
TOOLS = ("pip", "setuptools", "wheel")  # what an environment brings, not what fmpair needs


def installed(python: str) -> list[Any]:
    """[name, version, licence, requirements] of everything an environment has."""
    done = subprocess.run([python, "-c", ASK], check=True, capture_output=True, text=True)
    return [one for one in json.loads(done.stdout) if one[0] not in TOOLS]


def bill(found: list[Any]) -> dict[str, Any]:
    """The document: fmpair itself, and a component for each of its parts."""
    parts = [_component(*one[:3]) for one in found]
    [own] = [part for part in parts if part["name"] == "fmpair"]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": own | {"type": "application"}},
        "components": [part for part in parts if part is not own],
    }


def _component(name: str, version: str, licence: str) -> dict[str, Any]:
    purl = f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"
    known = [{"license": {"name": licence}}] if licence else []
    return {
        "type": "library",
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
        "licenses": known,
    }


if __name__ == "__main__":
    print(json.dumps(bill(installed(sys.argv[1])), indent=1))
