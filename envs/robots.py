"""What a robot is made of: an arm, the tool on its flange, and how both are driven."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kinematics.frames import Array

MODELS = Path(__file__).resolve().parent.parent / "models"


@dataclass(frozen=True, slots=True, eq=False)
class GripperSpec:
    """Describe a parallel gripper; names as in its own file."""

    mjcf: Path
    root: str
    joints: tuple[str, ...]
    actuator: str
    ee_site: str
    pads: tuple[str, ...]
    """Geoms that grasp."""
    stroke: float
    """m; travel of one finger, the actuator's ctrl when open."""
    max_speed: float
    """m/s of one finger's target: twice the maker's 0.05, so that a squeeze is not felt late."""

    @property
    def max_opening(self) -> float:
        """Return the distance between the pads when open [m]."""
        return self.stroke * len(self.joints)


@dataclass(frozen=True, slots=True, eq=False)
class ArmSpec:
    """Describe an arm; names as in its own file."""

    name: str
    mjcf: Path
    root: str
    joints: tuple[str, ...]
    """Hinges from base to flange; each has a position actuator of the same name."""
    flange: str
    """Site that carries the tool."""
    home: Array
    """(n,) [rad]"""
    velocity_limits: Array
    """(n,) [rad/s]"""
    servo_time: float
    """s; kv / kp of the position servos: how far they trail without feed-forward."""
    workspace_lower: Array
    """(3,) of the tool centre in base [m]."""
    workspace_upper: Array
    """(3,) of the tool centre in base [m]."""


FRANKA_HAND = GripperSpec(
    mjcf=MODELS / "franka_hand" / "franka_hand.xml",
    root="hand",
    joints=("finger_joint1", "finger_joint2"),
    actuator="fingers",
    ee_site="ee",
    pads=("left_pad", "right_pad"),
    stroke=0.04,
    max_speed=0.1,
)

PANDA = ArmSpec(
    name="panda",
    mjcf=MODELS / "panda" / "panda.xml",
    root="link0",
    joints=tuple(f"joint{i}" for i in range(1, 8)),
    flange="flange",
    # The maker's "ready" posture: tool down, fingers open along y.
    home=np.array([0.0, -0.785398163, 0.0, -2.35619449, 0.0, 1.57079633, 0.785398163]),
    velocity_limits=np.array([2.175, 2.175, 2.175, 2.175, 2.61, 2.61, 2.61]),
    servo_time=0.1,
    # z: fingertips end 8 mm below the tool centre; 10 mm keeps them off the table.
    workspace_lower=np.array([0.20, -0.50, 0.01]),
    workspace_upper=np.array([0.80, 0.50, 0.85]),
)
