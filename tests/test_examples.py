"""The examples run; training ones only with the extra they need."""

import csv
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def load(name: str) -> Any:
    spec = spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_sac_reach_trains_on_moves_alone() -> None:
    """A guide made of three numbers gets there, well within the episode."""
    with load("train_sac_reach").make_env() as env:
        assert env.action_space.shape == (3,)
        for seed in range(5):
            obs, _ = env.reset(seed=seed)
            truncated = False
            solved = []
            while not truncated:
                way = obs["desired_goal"] - obs["achieved_goal"]
                obs, _, _, truncated, info = env.step(np.clip(10 * way, -1, 1).astype(np.float32))
                solved.append(info["success"])
            assert len(solved) == 40
            assert any(solved[:30]) and info["is_success"]


def test_sac_reach_names_the_extra_it_lacks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    assert load("train_sac_reach").main(["--out", str(tmp_path / "run")]) == 1
    assert 'pip install -e ".[rl]"' in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.rl
def test_sac_reach_learns(tmp_path: Path) -> None:
    """Two thirds of the default's steps; with every seed tried all goals are reached by then.

    In a process of its own: Triton, loaded after a picture was drawn in software, ends the process.
    """
    command = [sys.executable, EXAMPLES / "train_sac_reach.py", "--steps", "4000"]
    subprocess.run([*command, "--out", tmp_path], cwd=EXAMPLES.parent, check=True, timeout=600)
    with (tmp_path / "success.csv").open(encoding="utf-8") as file:
        row = list(csv.DictReader(file))[-1]
    assert int(row["steps"]) == 4000
    assert float(row["solved"]) >= 0.8
    assert (tmp_path / "policy.zip").exists() and (tmp_path / "normalize.pkl").exists()
