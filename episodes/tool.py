"""Find the tool in a model, and compare where it is with what was observed."""

from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt

from kinematics import Side

from . import schema
from .environment import StateHolder
from .reader import Episode

POSE_TOLERANCE = 1e-6
"""m; observations are float32, which resolves 6e-8 m at 1 m."""


class ToolCheck:
    """Compare the tool's place, from forward kinematics, with the stored observation."""

    def __init__(self, episode: Episode, holder: StateHolder) -> None:
        self._holder = holder
        self._pairs: list[tuple[str, int, npt.NDArray[Any], float]] = []
        self._said = False
        observations = episode.observations()
        for robot, side in enumerate(episode.sides):
            site, key = tool_site(holder.model, side), f"robot{robot}_eef_pos"
            if site is not None and key in observations:
                noise = episode.dataset_attrs(f"{schema.OBS}/{key}").get("noise_bound", 0.0)
                self._pairs.append((key, site, observations[key], POSE_TOLERANCE + float(noise)))

    def fits(self, row: int, notes: list[str]) -> bool:
        """Say whether the restored tool is where ``row`` saw it; the first miss goes to notes."""
        for key, site, stored, tolerance in self._pairs:
            error = float(np.max(np.abs(self._holder.data.site_xpos[site] - stored[row])))
            if not error <= tolerance:
                if not self._said:
                    notes.append(f"obs/{key} of row {row} is {error:.3g} m from its state's tool")
                    self._said = True
                return False
        return True


def tool_site(model: mujoco.MjModel, side: Side) -> int | None:
    """Return the site named ``ee`` under the side's prefix, None unless there is exactly one."""
    found = [
        i
        for i in range(model.nsite)
        if model.site(i).name.startswith(side.prefix) and model.site(i).name.split("/")[-1] == "ee"
    ]
    return found[0] if len(found) == 1 else None
