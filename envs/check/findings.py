"""What a check reports, and words shared by all checks."""

from dataclasses import dataclass
from enum import IntEnum

import mujoco
import numpy as np

from kinematics.frames import Array


class Severity(IntEnum):
    """Order findings."""

    NOTE = 0
    """Good to know; a sound model has some."""
    WARNING = 1
    """Seldom meant: look at it."""
    ERROR = 2
    """Wrong whatever was meant."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Hold one thing found: a number, where it was measured, its limit and what to do."""

    severity: Severity
    code: str
    where: str
    """Kind and name of the element, such as ``joint left/elbow``."""
    what: str
    """What the number is."""
    measured: float
    limit: float | None
    unit: str
    advice: str


Kind = mujoco.mjtObj
HINGE, SLIDE = int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE)
FREE = int(mujoco.mjtJoint.mjJNT_FREE)


def place(model: mujoco.MjModel, kind: mujoco.mjtObj, index: int) -> str:
    """Return kind and name of an element, or its number where it has no name."""
    word = kind.name.removeprefix("mjOBJ_").lower()
    name = mujoco.mj_id2name(model, int(kind), int(index))
    return f"{word} {name}" if name else f"{word} number {index}"


def is_collidable(model: mujoco.MjModel, geom: int) -> bool:
    """Return whether a geom can be in contact with anything."""
    return bool(model.geom_contype[geom] or model.geom_conaffinity[geom])


def hinges_and_slides(model: mujoco.MjModel) -> list[int]:
    """Return the joints of one degree of freedom."""
    return [j for j in range(model.njnt) if int(model.jnt_type[j]) in (HINGE, SLIDE)]


def unit_of(model: mujoco.MjModel, joint: int) -> str:
    """Return the unit of a joint of one degree of freedom."""
    return "rad" if int(model.jnt_type[joint]) == HINGE else "m"


def joint_servos(model: mujoco.MjModel) -> dict[int, int]:
    """Return, by actuator, the joint that it drives to its ctrl: a position servo's."""
    servos = {}
    for a in range(model.nu):
        on_joint = int(model.actuator_trntype[a]) == int(mujoco.mjtTrn.mjTRN_JOINT)
        affine = int(model.actuator_biastype[a]) == int(mujoco.mjtBias.mjBIAS_AFFINE)
        gain, bias = model.actuator_gainprm[a, 0], model.actuator_biasprm[a, 1]
        if on_joint and affine and gain > 0.0 and np.isclose(bias, -gain):
            servos[a] = int(model.actuator_trnid[a, 0])
    return servos


def relative_pose(model: mujoco.MjModel, data: mujoco.MjData, a: int, b: int) -> Array:
    """Return position [m] and wxyz (7,) of body b in body a."""
    inverse, found = np.zeros(4), np.zeros(7)
    mujoco.mju_negQuat(inverse, data.xquat[a])
    mujoco.mju_rotVecQuat(found[:3], data.xpos[b] - data.xpos[a], inverse)
    mujoco.mju_mulQuat(found[3:], inverse, data.xquat[b])
    return found


def angle_between(one: Array, two: Array) -> float:
    """Return the angle [rad] between two wxyz (4,)."""
    turn = np.zeros(3)
    mujoco.mju_subQuat(turn, np.array(one), np.array(two))
    return float(np.linalg.norm(turn))
