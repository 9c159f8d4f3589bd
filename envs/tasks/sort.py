"""Sort cubes by colour into two bins."""

from collections.abc import Mapping

import mujoco
import numpy as np

from kinematics import EndEffectorTarget, Side, Waypoint
from kinematics.frames import Array

from ..scene import Prop
from .base import Task, TaskArm
from .bin import Bin
from .moves import flat_axes, grasp, release, retreat, tool_down
from .things import FreeObject, pad_geoms, robot_geoms, scatter

COLOURS = {"red": (0.80, 0.12, 0.10, 1.0), "blue": (0.15, 0.35, 0.75, 1.0)}
CUBES = {f"{colour}_{i}": colour for colour in COLOURS for i in (1, 2)}
CUBE_PROPS = tuple(Prop(name, "small_cube", COLOURS[colour]) for name, colour in CUBES.items())
BINS = {colour: Prop(f"{colour}_bin", "bin", rgba) for colour, rgba in COLOURS.items()}


class Sort(Task):
    """Lay every cube into the bin of its colour and let go of it."""

    name = "sort"
    instruction = "Put the red cubes into the red bin and the blue cubes into the blue bin."
    objects = (*CUBE_PROPS, *BINS.values())
    time_limit_s = 120.0
    hold_s = 0.5
    object_names = (
        *(entry for name in CUBES for entry in FreeObject.observed_names(name)),
        *(f"{colour}_bin_{axis}" for colour in COLOURS for axis in "xyz"),
    )
    subtask_names = tuple(f"{name}_{step}" for name in CUBES for step in ("grasped", "sorted"))
    resizable = tuple(prop.prefix + prop.file for prop in CUBE_PROPS)
    lower = np.array([0.36, -0.11])
    upper = np.array([0.60, 0.11])
    """m; where the cubes may lie, between the bins."""
    gap = 0.09
    """m between cubes: an open finger fits beside one without touching the next."""
    bin_place = np.array([0.45, 0.26])
    """m; a bin's middle, to the left or the right of the cubes."""
    bin_spread = 0.04
    """m; how far along x it may be from there."""
    slot = 0.035
    """m; from the bin's middle to where each of two cubes is dropped."""

    def __init__(self, model: mujoco.MjModel, arms: Mapping[Side, TaskArm]) -> None:
        super().__init__(model, arms)
        self._cubes = {prop.name: FreeObject(model, prop.prefix + prop.file) for prop in CUBE_PROPS}
        self._bins = {colour: Bin(model, prop.prefix + "bin") for colour, prop in BINS.items()}
        self._site = arms[Side.RIGHT].site
        self._pads = pad_geoms(model, arms[Side.RIGHT])
        self._robot = robot_geoms(model, arms)

    def reset(self, data: mujoco.MjData, rng: np.random.Generator) -> None:
        """Scatter the cubes at any yaw; a bin on either side, red on the left or on the right."""
        side = rng.choice([-1.0, 1.0])
        for sign, place in zip((side, -side), self._bins.values(), strict=True):
            x = self.bin_place[0] + rng.uniform(-self.bin_spread, self.bin_spread)
            place.put(data, (x, sign * self.bin_place[1], 0.0), 0.0)
        points = scatter(rng, self.lower, self.upper, self.gap, len(self._cubes))
        for cube, xy in zip(self._cubes.values(), points, strict=True):
            half = self.model.geom_size[cube.geoms[0], 2]
            cube.put(data, (*xy, half), rng.uniform(-np.pi, np.pi))

    def observe(self, data: mujoco.MjData) -> Array:
        """Return the cubes' poses and offsets from the tool and the bins' places, (46,) [m]."""
        found = np.empty(len(self.object_names))
        for index, cube in enumerate(self._cubes.values()):
            cube.observe(data, self._site, found[10 * index : 10 * index + 10])
        found[-6:-3], found[-3:] = (place.position(data) for place in self._bins.values())
        return found

    def _sorted(self, data: mujoco.MjData, name: str) -> bool:
        return self._bins[CUBES[name]].holds(data, self._cubes[name])

    def condition(self, data: mujoco.MjData) -> bool:
        """Return whether every cube lies still in its bin, and the robot touches none."""
        return all(self._sorted(data, name) for name in CUBES) and all(
            cube.at_rest(data) and self._robot.isdisjoint(cube.touching(data))
            for cube in self._cubes.values()
        )

    def subtasks(self, data: mujoco.MjData) -> dict[str, bool]:
        """Return of each cube whether it is held and whether it is in its bin, let go."""
        found = {}
        for name, cube in self._cubes.items():
            touching = cube.touching(data)
            found[f"{name}_grasped"] = self._pads <= touching
            found[f"{name}_sorted"] = self._sorted(data, name) and self._robot.isdisjoint(touching)
        return found

    def shaped_reward(self, data: mujoco.MjData) -> float:
        """Return the share of cubes that are sorted, the best of the others counting in part."""
        found = [1.0 if self._sorted(data, name) else self._progress(data, name) for name in CUBES]
        best = max((value for value in found if value < 1.0), default=0.0)
        return 0.99 * (found.count(1.0) + best) / len(found)

    def _progress(self, data: mujoco.MjData, name: str) -> float:
        """Return 0.3 each for being at a cube, holding it, and its way to the bin."""
        cube = self._cubes[name]
        position = cube.position(data)
        held = float(self._pads <= cube.touching(data))
        goal = self._bins[CUBES[name]].drop_point(data)
        near = 1.0 - np.tanh(5.0 * mujoco.mju_norm3(position - data.site_xpos[self._site]))
        way = held * (1.0 - np.tanh(5.0 * mujoco.mju_norm3(position - goal)))
        return float(0.3 * (near + held + way))

    def guide(self, data: mujoco.MjData, tools: Mapping[Side, EndEffectorTarget]) -> list[Waypoint]:
        """Bring the cube in the hand to its bin, or fetch the nearest that is not in its own."""
        if self.success(data):
            return []
        tool = tools[Side.RIGHT]
        for name, cube in self._cubes.items():
            if self._pads <= cube.touching(data):
                held = tool.position - cube.position(data)
                return release(tool, self._goal(data, name) + held, tool.quat_wxyz, 0.012)
        waiting = [  # what falls is not to be caught again
            name
            for name, cube in self._cubes.items()
            if not self._bins[CUBES[name]].catches(data, cube) and not self._sorted(data, name)
        ]
        if not waiting:
            return retreat(tool, 0.16)
        name = min(waiting, key=lambda name: self._away(data, tool, name))
        cube = self._cubes[name]
        quat = tool_down(tool, flat_axes(cube.quat(data)))
        goal = self._goal(data, name)
        return [*grasp(tool, cube.position(data), quat), *release(tool, goal, quat, 0.012)]

    def _away(self, data: mujoco.MjData, tool: EndEffectorTarget, name: str) -> float:
        """Return how far over the table the tool is from a cube [m]."""
        return float(np.hypot(*(self._cubes[name].position(data) - tool.position)[:2]))

    def _goal(self, data: mujoco.MjData, name: str) -> Array:
        """Return where a cube is let go: in the half of its bin that the other leaves."""
        place, slot = self._bins[CUBES[name]], self.slot
        for other, colour in CUBES.items():
            if other != name and colour == CUBES[name] and self._sorted(data, other):
                slot = -np.copysign(slot, place.local(data, self._cubes[other].position(data))[0])
        return place.drop_point(data, float(slot))
