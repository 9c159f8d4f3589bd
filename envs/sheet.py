"""A contact sheet: every task in the middle of being done, in one picture.

The guide plays straight into the environments: the same versions draw the same sheet.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import mujoco
import numpy as np
import numpy.typing as npt

from .errors import RenderingError
from .guided import step
from .panda_env import PicoPandaEnv
from .rendering import OffscreenRenderer
from .tasks import TASKS

TILE = (400, 300)
"""px, width and height of a task's picture; four side by side are more than a README shows."""
COLUMNS = 4
_OVERSAMPLED = 2
"""Drawn so many times larger and averaged: smoother edges, of shadows too."""
_COLOURS = 256
"""Of the PNG's palette: a third of the bytes of full colour, with no bands to be seen."""
_NAME_PX, _NAME_INSET = 20, 12


@dataclass(frozen=True, slots=True)
class Shot:
    """Say when and from where a task's picture is taken."""

    moment: float = 0.6
    """0 the reset, 1 the success of the guide's episode."""
    centre: tuple[float, float, float] = (0.36, 0.0, 0.22)
    """m; what the camera looks at, in world."""
    distance: float = 1.6
    """m"""
    azimuth: float = 145.0
    """degrees; 180 looks at the robot from opposite, less from its left."""
    elevation: float = -24.0
    """degrees"""


_BETWEEN = Shot(centre=(0.33, 0.0, 0.20), distance=1.8, azimuth=160.0)
"""Two arms, and what is between them."""
SHOTS = {
    "reach": Shot(0.75),
    "pick": Shot(0.9),
    "place": Shot(0.66),
    "stack": Shot(0.76),
    "push": Shot(0.75),
    "sort": Shot(0.43),
    "drawer": Shot(0.6),
    "peg": Shot(0.72),
    "lift_tray": replace(_BETWEEN, moment=0.92),
    "handover": replace(_BETWEEN, moment=0.68),
    "dual_peg": replace(_BETWEEN, moment=0.85),
    "open_lid": replace(_BETWEEN, moment=0.9, azimuth=200.0),
}
"""Moments and places that show what is to be done; a task that is not named takes the defaults."""


def draw_sheet(path: Path, tasks: Iterable[str] = tuple(TASKS), seed: int = 0) -> None:
    """Draw a picture of each task into a PNG file, row by row, each with its name.

    Raises RenderingError without Pillow (extra ``plot``), without a way to render, and for a path
    that cannot be written.
    """
    try:
        from PIL import Image, ImageDraw, ImageFont
    except ImportError as error:
        raise RenderingError(
            f'drawing a sheet needs Pillow ({error}): python -m pip install -e ".[plot]"'
        ) from error
    names = list(tasks)
    (width, height), rows = TILE, -(-len(names) // COLUMNS)
    sheet = Image.new("RGB", (COLUMNS * width, rows * height), "white")
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(_NAME_PX)
    for index, name in enumerate(names):
        corner = (index % COLUMNS * width, index // COLUMNS * height)
        sheet.paste(
            Image.fromarray(_picture(name, seed)).resize(TILE, Image.Resampling.BOX), corner
        )
        at = (corner[0] + _NAME_INSET, corner[1] + height - _NAME_INSET)
        pen.text(at, name, "black", font, anchor="ls")  # where no arm reaches
    try:
        sheet.quantize(_COLOURS, kmeans=1).save(path, format="PNG", optimize=True)
    except OSError as error:
        raise RenderingError(f"cannot write {path}: {error}") from error


def _picture(name: str, seed: int) -> npt.NDArray[np.uint8]:
    """Return one task's picture, larger than its tile."""
    shot = SHOTS.get(name, Shot())
    env = PicoPandaEnv(name, arms=TASKS[name].n_arms)
    env.restore(_state_at(env, shot.moment, seed))
    _aim(env.model, shot)
    width, height = (_OVERSAMPLED * side for side in TILE)
    with OffscreenRenderer(env.model, width, height, shadows=True) as renderer:
        return renderer.render(env.data)


def _state_at(env: PicoPandaEnv, moment: float, seed: int) -> npt.NDArray[np.float64]:
    """Return the state (D,) of that share of the guide's way through an episode."""
    env.reset(seed=seed)
    states, ended = [env.integration_state()], False
    while not ended:
        ended = step(env)
        states.append(env.integration_state())
    return states[round(moment * (len(states) - 1))]


def _aim(model: mujoco.MjModel, shot: Shot) -> None:
    """Let the free camera of this model, which nobody else has, take the shot."""
    model.stat.center[:] = shot.centre
    model.stat.extent = shot.distance / 1.5  # mjv_defaultFreeCamera's distance is 1.5 extents
    view = model.vis.global_
    view.azimuth, view.elevation, view.fovy = shot.azimuth, shot.elevation, 36.0
    model.vis.quality.shadowsize = 4096
