"""The contact sheet: what is in it, and errors in words."""

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from envs import sheet
from envs.errors import RenderingError
from envs.sheet import SHOTS, draw_sheet
from envs.tasks import TASKS


def test_every_task_has_its_shot() -> None:
    assert list(SHOTS) == list(TASKS)


def test_each_task_gets_a_tile_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sheet, "TILE", (160, 120))
    monkeypatch.setattr(sheet, "COLUMNS", 2)
    draw_sheet(tmp_path / "sheet.png", ("place", "reach", "place"))
    with Image.open(tmp_path / "sheet.png") as picture:
        drawn = np.asarray(picture.convert("RGB")).astype(int)
    assert drawn.shape == (240, 320, 3)
    blue = (drawn[..., 2] > 90) & (drawn[..., 0] < 70)
    green = (drawn[..., 1] > 80) & (drawn[..., 0] < 70)
    assert blue[:120, :160].sum() > 40, "the bin"
    assert green[:120, 160:].sum() > 3, "the marker"
    assert (drawn[120:, 160:] == 255).all(), "no fourth task"
    np.testing.assert_array_equal(drawn[:120, :160], drawn[120:, :160], "the same, again")


def test_without_pillow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(RenderingError, match=r"\[plot\]"):
        draw_sheet(tmp_path / "sheet.png")


def test_a_path_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sheet, "TILE", (16, 12))
    with pytest.raises(RenderingError, match="cannot write"):
        draw_sheet(tmp_path / "none" / "sheet.png", ("reach",))
