"""Make the support modules importable, here and in the processes that tests start."""

import os
import sys
from pathlib import Path

import pytest

SUPPORT = Path(__file__).parent / "support"
sys.path.insert(0, str(SUPPORT))


@pytest.fixture
def subprocess_env() -> dict[str, str]:
    """Return an environment in which a new process finds the support modules."""
    here = os.environ.get("PYTHONPATH", "")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(SUPPORT), here]).rstrip(os.pathsep)}
