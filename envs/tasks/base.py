"""What every task offers."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import mujoco
import numpy as np

from kinematics import EndEffectorTarget, Side, Waypoint, Workspace
from kinematics.frames import Array

from ..robots import GripperSpec
from ..scene import Prop

HELD = 0
"""Slot of ``MjData.userdata``: physics steps for which the task's condition has held."""


@dataclass(frozen=True, slots=True)
class TaskArm:
    """Tell a task one arm's names in the model."""

    gripper: GripperSpec
    prefix: str
    """Of the tool's names, such as ``right/hand/``."""
    site: int
    """Id of the tool centre's site."""
    workspace: Workspace
    """Where the tool centre may be."""


class Task(ABC):
    """Set a scene, judge it, and know the way: one task file each.

    A task keeps no state of its own between steps: counters live in ``MjData.userdata``.
    """

    name: ClassVar[str]
    instruction: ClassVar[str]
    n_arms: ClassVar[int] = 1
    """Arms that the task is made for."""
    objects: ClassVar[tuple[str | Prop, ...]]
    """What is in the scene: folders of models/, or Props for several of one folder."""
    reach_m: ClassVar[float] = 0.65
    """How far in front of its base an arm must reach; 0 for a task that fits itself to the arm."""
    time_limit_s: ClassVar[float]
    hold_s: ClassVar[float]
    """How long the condition must hold to count as success [s]."""
    object_names: ClassVar[tuple[str, ...]]
    """Names of the entries of the ``object`` observation."""
    subtask_names: ClassVar[tuple[str, ...]]
    """Steps on the way, in the order in which they are usually achieved."""
    resizable: ClassVar[tuple[str, ...]] = ()
    """Bodies in the model whose sizes may be drawn: reset, success and guide read them there."""
    object_bound: ClassVar[float] = 10.0
    """Bound of those entries; far more than a thrown object covers in an episode."""

    def __init__(self, model: mujoco.MjModel, arms: Mapping[Side, TaskArm]) -> None:
        self.model, self.arms = model, arms
        self.hold_steps = round(self.hold_s / model.opt.timestep)

    @abstractmethod
    def reset(self, data: mujoco.MjData, rng: np.random.Generator) -> None:
        """Place the objects, drawing from ``rng`` only."""

    @abstractmethod
    def observe(self, data: mujoco.MjData) -> Array:
        """Return the ``object`` observation, fresh."""

    @abstractmethod
    def condition(self, data: mujoco.MjData) -> bool:
        """Return whether the goal is met at this instant."""

    @abstractmethod
    def shaped_reward(self, data: mujoco.MjData) -> float:
        """Return a dense reward in [0, 1) for a state that is not yet success."""

    @abstractmethod
    def subtasks(self, data: mujoco.MjData) -> dict[str, bool]:
        """Return, by ``subtask_names``, which steps are achieved at this instant.

        Signals by which demonstrations are cut into segments; from the state alone.
        """

    @abstractmethod
    def guide(self, data: mujoco.MjData, tools: Mapping[Side, EndEffectorTarget]) -> list[Waypoint]:
        """Return what remains to be done from this state, next first; empty when done.

        ``tools`` holds the measured tool poses and closures. With two arms the list holds the
        waypoints of both sides and each hand does the first of its own; a hand that must wait for
        the other finds its present pose there.
        """

    def update(self, data: mujoco.MjData, n_substeps: int) -> None:
        """Count how long the condition has held; once a control step."""
        counters = data.userdata
        if self.condition(data):
            counters[HELD] += n_substeps
        else:
            counters[HELD] = 0.0

    def success(self, data: mujoco.MjData) -> bool:
        """Return whether the condition has held long enough."""
        return bool(data.userdata[HELD] >= self.hold_steps)
