"""Checks of a robot against its ``robot.toml``: what the environment takes on trust."""

from collections.abc import Iterator

import mujoco
import numpy as np

from kinematics.frames import Array
from kinematics.names import joint_addresses, named_id

from ..robots import ArmSpec, GripperSpec
from .findings import Finding, Kind, Severity, joint_servos, place
from .still import at_home

ALIGNED_RAD = np.deg2rad(2.0)
"""Between axes that should be one; homes are written to a few decimals."""
BETWEEN_M = 2e-3
"""Of the tool centre off the plane half way between the pads."""
AHEAD = 0.01
"""Share by which kv / kp may differ from servo_time."""


def arm_servos(model: mujoco.MjModel, arm: ArmSpec, prefix: str) -> Iterator[Finding]:
    """Compare kv / kp of the servos with the file's servo_time, which feed-forward goes by."""
    servos = joint_servos(model)
    for name, servo in zip(arm.joints, arm.servos, strict=True):
        a = named_id(model, Kind.mjOBJ_ACTUATOR, prefix + servo)
        where = place(model, Kind.mjOBJ_ACTUATOR, a)
        if servos.get(a) != named_id(model, Kind.mjOBJ_JOINT, prefix + name):
            yield Finding(
                Severity.ERROR,
                "not-a-servo",
                where,
                f"position servos of joint {name}",
                0.0,
                1.0,
                "",
                f"write <position joint={name!r} kp= kv=>: ctrl is the joint's target",
            )
            continue
        lag = -float(model.actuator_biasprm[a, 2] / model.actuator_gainprm[a, 0])
        if abs(lag - arm.servo_time) > AHEAD * arm.servo_time:
            yield Finding(
                Severity.WARNING,
                "servo-time",
                where,
                "kv / kp, against servo_time in robot.toml",
                lag,
                arm.servo_time,
                "s",
                "make them equal, or the arm trails or leads what it is told",
            )


def arm_home(model: mujoco.MjModel, arm: ArmSpec, prefix: str) -> Iterator[Finding]:
    """Compare the file's keyframe with robot.toml's home."""
    if model.nkey == 0:
        return
    adr, _ = joint_addresses(model, [prefix + name for name in arm.joints])
    gaps = np.abs(at_home(model).qpos[adr] - np.array(arm.home))
    worst = int(gaps.argmax())
    if gaps[worst] > 1e-3:
        yield Finding(
            Severity.WARNING,
            "home-differs",
            f"joint {prefix}{arm.joints[worst]}",
            "between the keyframe's home and robot.toml's",
            float(gaps[worst]),
            1e-3,
            "rad",
            "write the same home in both",
        )


def gripper_frame(model: mujoco.MjModel, gripper: GripperSpec, prefix: str) -> Iterator[Finding]:
    """Check the tool's frame: fingers along y, the tool centre half way between the pads."""
    data, site = at_home(model), named_id(model, Kind.mjOBJ_SITE, prefix + gripper.ee_site)
    axes, centre = data.site_xmat[site].reshape(3, 3), data.site_xpos[site]
    where = place(model, Kind.mjOBJ_SITE, site)
    for name in gripper.joints:
        joint = named_id(model, Kind.mjOBJ_JOINT, prefix + name)
        angle = _angle(axes[:, 1], data.xaxis[joint])
        angle = min(angle, np.pi - angle)
        yield from _turned(f"{where}, joint {prefix}{name}", "y", "the fingers' travel", angle)
    middles = [data.geom_xpos[named_id(model, Kind.mjOBJ_GEOM, prefix + p)] for p in gripper.pads]
    if len(middles) == 2:
        off = float(abs((np.mean(middles, axis=0) - centre) @ axes[:, 1]))
        if off > BETWEEN_M:
            yield Finding(
                Severity.ERROR,
                "frame-off-centre",
                where,
                "tool centre from half way between the pads, at home",
                off,
                BETWEEN_M,
                "m",
                "put the site between the pads: a grasp is planned around it",
            )
    a = named_id(model, Kind.mjOBJ_ACTUATOR, prefix + gripper.actuator)
    low, high = model.actuator_ctrlrange[a]
    for ctrl in (gripper.ctrl_open, gripper.ctrl_closed):
        beyond = float(max(low - ctrl, ctrl - high))
        if model.actuator_ctrllimited[a] and beyond > 1e-9:
            yield Finding(
                Severity.ERROR,
                "gripper-ctrl",
                place(model, Kind.mjOBJ_ACTUATOR, a),
                f"ctrl {ctrl:g} of robot.toml outside the actuator's range",
                beyond,
                0.0,
                "",
                "correct ctrl_open and ctrl_closed, or the ctrlrange",
            )


def tool_at_home(
    model: mujoco.MjModel, gripper: GripperSpec, prefix: str, base_z: Array
) -> Iterator[Finding]:
    """Check that the mounted tool points down at home, z being its approach."""
    data, site = at_home(model), named_id(model, Kind.mjOBJ_SITE, prefix + gripper.ee_site)
    angle = _angle(data.site_xmat[site].reshape(3, 3)[:, 2], -base_z)
    yield from _turned(place(model, Kind.mjOBJ_SITE, site), "z", "straight down at home", angle)


def _angle(one: Array, two: Array) -> float:
    return float(np.arctan2(np.linalg.norm(np.cross(one, two)), one @ two))


def _turned(where: str, axis: str, towards: str, angle: float) -> Iterator[Finding]:
    if angle > ALIGNED_RAD:
        yield Finding(
            Severity.ERROR,
            "frame-turned",
            where,
            f"between the frame's {axis} axis and {towards}",
            angle,
            float(ALIGNED_RAD),
            "rad",
            "turn the site, the tool's root or the flange: z is the approach, y the fingers' "
            "travel, and x points forward at home",
        )
