"""Control modes: the one encoder and the one decoder of actions.

Every action is a float32 vector in [-1, 1], the arms' parts one after the other (right, left).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from itertools import accumulate, pairwise
from math import isfinite
from operator import ne
from typing import ClassVar

import mujoco
import numpy as np
import numpy.typing as npt

from kinematics import EndEffectorTarget, Side
from kinematics.frames import Array

from .arm import ArmController
from .errors import ActionError, OptionError

Action = npt.NDArray[np.float32]


class ControlMode(ABC):
    """Translate between one arm's absolute command and its part of an action."""

    name: ClassVar[str]
    follows_poses: ClassVar[bool] = True
    """Joints come from the inverse kinematics, and with it the distance between links."""

    def __init__(self, period: float) -> None:
        """``period`` [s] of control."""
        self.period = period

    @abstractmethod
    def labels(self, arm: ArmController) -> tuple[str, ...]:
        """Return the names of the entries for one arm with a gripper."""

    @abstractmethod
    def describe(self, arm: ArmController) -> str:
        """Return what the entries mean, in a sentence or two."""

    @abstractmethod
    def encode(self, arm: ArmController, command: EndEffectorTarget) -> Array:
        """Return the entries that ask ``arm`` for ``command``, unbounded."""

    @abstractmethod
    def apply(
        self, arm: ArmController, data: mujoco.MjData, entries: list[float], ctrl: Array
    ) -> None:
        """Execute entries in [-1, 1]: write the arm's ctrl (n_substeps, nu)."""


def _closure(entry: float) -> float:
    return 0.5 * (entry + 1.0)


class EndEffectorDelta(ControlMode):
    """Change the commanded target: 1 is v_max T in each axis, omega_max T of rotation vector."""

    name = "ee_delta"

    def __init__(self, period: float) -> None:
        super().__init__(period)
        self._turn, self._local, self._inverse = np.zeros(3), np.zeros(3), np.zeros(4)
        self._position, self._quat = np.zeros(3), np.zeros(4)

    def labels(self, arm: ArmController) -> tuple[str, ...]:
        """Return the seven names, whatever the arm."""
        return ("dx", "dy", "dz", "droll", "dpitch", "dyaw", "gripper")

    def describe(self, arm: ArmController) -> str:
        """Return the meaning with the arm's speeds."""
        return (
            "change of the commanded target in one control step, world axes: 3 of position in "
            f"units of v_max T ({arm.speed.linear} m/s), 3 of rotation vector in units of "
            f"omega_max T ({arm.speed.angular} rad/s); gripper -1 open .. +1 closed"
        )

    def encode(self, arm: ArmController, command: EndEffectorTarget) -> Array:
        """Return the entries that lead from the accepted target straight toward ``command``.

        Farther than one step they are shortened, not clipped, which would change the direction.
        """
        entries = np.empty(7)
        entries[:3] = (command.position - arm.position) / (arm.speed.linear * self.period)
        mujoco.mju_subQuat(self._local, command.quat_wxyz, arm.quat)
        mujoco.mju_rotVecQuat(self._turn, self._local, arm.quat)
        if mujoco.mju_norm3(self._turn) < _NO_TURN:
            self._turn[:] = 0.0
        entries[3:6] = self._turn / (arm.speed.angular * self.period)
        for part in (entries[:3], entries[3:6]):
            part /= max(1.0, mujoco.mju_norm3(part))
        entries[6] = 2.0 * command.closure - 1.0
        return entries

    def apply(
        self, arm: ArmController, data: mujoco.MjData, entries: list[float], ctrl: Array
    ) -> None:
        """Add the increments to the accepted target and follow it; zero holds exactly."""
        move, turn, grip = entries[:3], entries[3:6], entries[6]
        np.multiply(move, arm.speed.linear * self.period, out=self._position)
        self._position += arm.position
        self._quat[:] = arm.quat
        if any(turn):  # integrating a zero turn renormalises: not exact
            np.multiply(turn, arm.speed.angular * self.period, out=self._turn)
            mujoco.mju_negQuat(self._inverse, arm.quat)
            mujoco.mju_rotVecQuat(self._local, self._turn, self._inverse)
            mujoco.mju_quatIntegrate(self._quat, self._local, 1.0)
            mujoco.mju_normalize4(self._quat)
        arm.follow_pose(data, self._position, self._quat, _closure(grip), ctrl)


_NO_TURN = 1e-12
"""rad; the rounding left over between a quaternion and itself, so that holding is exactly zero."""


class EndEffectorPose(ControlMode):
    """Give the target's absolute pose in the arm's base frame."""

    name = "ee_pose"

    def labels(self, arm: ArmController) -> tuple[str, ...]:
        """Return the ten names, whatever the arm."""
        return ("x", "y", "z", "r11", "r21", "r31", "r12", "r22", "r32", "gripper")

    def describe(self, arm: ArmController) -> str:
        """Return the meaning."""
        return (
            "absolute target in the arm's base frame: 3 of position, -1 .. 1 over the workspace "
            "box; the first two columns of the rotation matrix (made orthonormal by Gram-Schmidt; "
            "columns that span no plane keep the orientation); gripper -1 open .. +1 closed"
        )

    def encode(self, arm: ArmController, command: EndEffectorTarget) -> Array:
        """Return position over the box and two columns of ``R_base_ee``."""
        T_base_ee = arm.workspace.T_world_base.inv() * command.T_world_ee
        lower, upper = arm.workspace.lower, arm.workspace.upper
        columns = T_base_ee.rotation.as_matrix()[:, :2].T.ravel()
        position = 2.0 * (T_base_ee.translation - lower) / (upper - lower) - 1.0
        return np.concatenate([position, columns, [2.0 * command.closure - 1.0]])

    def apply(
        self, arm: ArmController, data: mujoco.MjData, entries: list[float], ctrl: Array
    ) -> None:
        """Move the accepted target toward the pose, at most at v_max and omega_max."""
        action = np.array(entries)
        lower, upper = arm.workspace.lower, arm.workspace.upper
        position = arm.workspace.to_world(lower + 0.5 * (action[:3] + 1.0) * (upper - lower))
        quat = self._rotation(arm, action[3:6], action[6:9])
        arm.follow_pose(data, position, quat, _closure(entries[9]), ctrl)

    @staticmethod
    def _rotation(arm: ArmController, x: Array, y: Array) -> Array:
        """Return the wxyz (4,) in world of a rotation in base given by two columns."""
        quat, x_axis, z_axis = np.zeros(4), np.array(x, dtype=np.float64), np.zeros(3)
        mujoco.mju_cross(z_axis, x, y)
        # Degenerate columns say nothing of the rotation. 1e-3: far above float32's rounding.
        if mujoco.mju_normalize3(x_axis) < 1e-3 or mujoco.mju_normalize3(z_axis) < 1e-3:
            return arm.quat.copy()
        columns = np.empty((3, 3))
        columns[0], columns[2] = x_axis, z_axis
        mujoco.mju_cross(columns[1], z_axis, x_axis)
        mujoco.mju_mat2Quat(quat, columns.T.ravel())
        mujoco.mju_mulQuat(quat, arm.base_quat, quat.copy())
        return quat


class JointPositions(ControlMode):
    """Give absolute joint targets."""

    name = "joint"
    follows_poses = False

    def labels(self, arm: ArmController) -> tuple[str, ...]:
        """Return the names of the arm's joints, and the gripper."""
        return (*arm.arm.joints, "gripper")

    def describe(self, arm: ArmController) -> str:
        """Return the meaning."""
        return (
            "absolute joint targets, -1 .. 1 over the joint ranges, approached at most at the "
            "joints' speed limits; gripper -1 open .. +1 closed"
        )

    def encode(self, arm: ArmController, command: EndEffectorTarget) -> Array:
        """Return the joint targets that lead one control step toward ``command``."""
        q = arm.look_ahead(command.position, command.quat_wxyz)
        entries = (q - arm.ik.lower) / arm.half_range - 1.0
        return np.concatenate([entries, [2.0 * command.closure - 1.0]])

    def apply(
        self, arm: ArmController, data: mujoco.MjData, entries: list[float], ctrl: Array
    ) -> None:
        """Move the joint reference toward the targets."""
        *joints, grip = entries
        span = zip(joints, arm.joint_span, strict=True)
        q = [(entry + 1.0) * half + lower for entry, (lower, half) in span]
        arm.follow_joints(data, q, _closure(grip), ctrl)


CONTROL_MODES: dict[str, type[ControlMode]] = {
    mode.name: mode for mode in (EndEffectorDelta, EndEffectorPose, JointPositions)
}


class ActionCodec:
    """Join the arms' parts of an action; the only encoder and the only decoder."""

    def __init__(self, mode: str, arms: Mapping[Side, ArmController], period: float) -> None:
        """``period`` [s] of control. Raises OptionError for an unknown mode."""
        if mode not in CONTROL_MODES:
            raise OptionError(f"control={mode!r} is unknown; choose from {list(CONTROL_MODES)}")
        self._arms = arms
        self.mode = CONTROL_MODES[mode](period)
        labels = [self.mode.labels(arm) for arm in arms.values()]
        self.names = tuple(f"robot{i}_{label}" for i, own in enumerate(labels) for label in own)
        self.width = len(self.names)
        ends = list(accumulate((len(own) for own in labels), initial=0))
        self._parts = [
            (arm, slice(*part)) for arm, part in zip(arms.values(), pairwise(ends), strict=True)
        ]
        self.description = self.mode.describe(next(iter(arms.values())))

    def encode(self, commands: Mapping[Side, EndEffectorTarget]) -> Action:
        """Return the action (width,) that asks for ``commands``, clipped to the box."""
        missing = [side.value for side in self._arms if side not in commands]
        if missing:
            raise ActionError(f"encode needs a target for every arm; missing: {missing}")
        parts = [self.mode.encode(arm, commands[side]) for side, arm in self._arms.items()]
        return np.clip(np.concatenate(parts), -1.0, 1.0).astype(np.float32)

    def apply(self, data: mujoco.MjData, action: npt.ArrayLike, ctrl: Array) -> int:
        """Execute an action (width,): write ctrl (n_substeps, nu); return how many were clipped.

        Raises ActionError for a wrong shape or a non-finite entry, before anything has moved.
        """
        given = np.asarray(action)
        if given.shape != (self.width,):
            raise ActionError(f"action must have shape ({self.width},), got {given.shape}")
        # Plain floats: a handful costs less than the calls of NumPy after a pass of physics.
        entries, n_clipped = given.tolist(), 0
        if max(entries) > 1.0 or min(entries) < -1.0 or not all(map(isfinite, entries)):
            entries, n_clipped = self._clip(entries)
        for arm, part in self._parts:
            self.mode.apply(arm, data, entries[part], ctrl)
        return n_clipped

    def _clip(self, entries: list[float]) -> tuple[list[float], int]:
        for name, (index, entry) in zip(self.names, enumerate(entries), strict=True):
            if not isfinite(entry):
                raise ActionError(f"action[{index}] ({name}) is {entry}")
        inside = [min(max(entry, -1.0), 1.0) for entry in entries]
        return inside, sum(map(ne, inside, entries))
