"""The MuJoCo that is needed: one range, and words when it is another or none."""

import subprocess
import sys
import tomllib
from pathlib import Path

import mujoco
import pytest

from kinematics.engine import REQUIREMENT, require

ROOT = Path(__file__).parents[2]


def test_the_range_is_that_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert REQUIREMENT in project["dependencies"]


@pytest.mark.parametrize("version", ["3.17", "3.17.0", "3.18.2", "3.20.0rc1"])
def test_what_will_do(version: str) -> None:
    require(version)
    require(mujoco.__version__)


@pytest.mark.parametrize("version", ["2.3.7", "3.9.0", "3.16.0", "4.0.0", "4.0.1", "5.0.0"])
def test_what_will_not_do_is_told_with_the_repair(version: str) -> None:
    with pytest.raises(ImportError, match=rf"MuJoCo {version} will not do.*pip install --upgrade"):
        require(version)


@pytest.mark.parametrize(
    ("module", "says"),
    [
        ("raise ImportError('no core')", "no core"),
        ("", "__version__"),
        ("__version__ = '4.0.0'", "4.0.0"),
    ],
)
def test_a_broken_installation_is_told_by_whatever_comes_first(
    tmp_path: Path, module: str, says: str
) -> None:
    """An interrupted upgrade leaves a package that fails, or a folder without its parts."""
    (tmp_path / "mujoco.py").write_text(module, encoding="utf-8")
    code = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, {str(ROOT)!r}]; import envs.panda_env"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: MuJoCo")
    assert says in last
    assert "pip install --upgrade --force-reinstall" in last
