"""Fixtures of the stand-in runtime; a conftest imports the names it wants."""

from pathlib import Path

import pytest

from .library import build_library, why_not_here
from .runtime import StandInRuntime


@pytest.fixture(scope="session")
def openvr_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the runtime once; skip only where that is impossible."""
    if reason := why_not_here():
        pytest.skip(reason)
    return build_library(tmp_path_factory.mktemp("openvr_library"))


@pytest.fixture
def runtime(
    openvr_library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> StandInRuntime:
    """Return a running runtime, found by this process and those it starts."""
    home = tmp_path / "openvr"
    home.mkdir()
    runtime = StandInRuntime(home, openvr_library)
    for name in ("VR_OVERRIDE", "VR_CONFIG_PATH", "VR_LOG_PATH"):
        monkeypatch.delenv(name, raising=False)
    for name, value in runtime.env.items():
        monkeypatch.setenv(name, value)
    return runtime
