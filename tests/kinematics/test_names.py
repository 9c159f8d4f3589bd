"""Names instead of numbers: what is unknown is an error that lists what there is."""

from collections.abc import Callable

import mujoco
import numpy as np
import pytest

from kinematics import KinematicsError, UnknownNameError
from kinematics.ik import ArmIK
from kinematics.names import joint_addresses, named_id, names_of

JOINTS = [f"arm/joint{i}" for i in range(1, 8)]


def test_addresses_follow_the_names(build_model: Callable[..., mujoco.MjModel]) -> None:
    """A free joint has 7 positions and 6 velocities, a hinge one of each: 8 and 7 before."""
    qpos, dof = joint_addresses(build_model("cube", "door"), JOINTS)
    np.testing.assert_array_equal(qpos, np.arange(8, 15))
    np.testing.assert_array_equal(dof, np.arange(7, 14))


def test_addresses_come_in_the_order_asked_for(bare: mujoco.MjModel) -> None:
    qpos, _ = joint_addresses(bare, ["arm/joint3", "arm/joint1"])
    np.testing.assert_array_equal(qpos, [2, 0])


def test_a_misspelt_name_is_an_error_with_the_names_there_are(bare: mujoco.MjModel) -> None:
    known = "it has: arm/joint1, arm/joint2, arm/joint3"
    with pytest.raises(UnknownNameError, match=f"no joint named 'joint9'; {known}"):
        joint_addresses(bare, ["arm/joint1", "joint9"])
    with pytest.raises(UnknownNameError, match=r"no site named 'tcp'; it has: .*arm/hand/ee"):
        named_id(bare, mujoco.mjtObj.mjOBJ_SITE, "tcp")
    with pytest.raises(UnknownNameError, match="no actuator named 'a'; it has: none"):
        named_id(bare, mujoco.mjtObj.mjOBJ_ACTUATOR, "a")


@pytest.mark.parametrize("kind", ["BODY", "JOINT", "GEOM", "SITE", "CAMERA", "ACTUATOR", "KEY"])
def test_names_of_every_kind(build_model: Callable[..., mujoco.MjModel], kind: str) -> None:
    model = build_model("cube")
    code = getattr(mujoco.mjtObj, f"mjOBJ_{kind}")
    for name in names_of(model, code):
        assert named_id(model, code, name) >= 0


def test_a_free_joint_is_not_an_arm_joint(build_model: Callable[..., mujoco.MjModel]) -> None:
    with pytest.raises(KinematicsError, match="'cube_joint' is not a hinge or slide"):
        joint_addresses(build_model("cube"), ["cube_joint"])


def _make(model: mujoco.MjModel, **changes: object) -> ArmIK:
    arguments = {
        "joints": JOINTS, "site": "arm/hand/ee", "velocity_limits": np.ones(7), "rest": np.zeros(7),
    }  # fmt: skip
    return ArmIK(model, **(arguments | changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"site": "nope"}, "no site named 'nope'"),
        ({"joints": ["arm/joint1", "nope"]}, "no joint named 'nope'"),
        ({"velocity_limits": np.ones(6)}, "velocity_limits must be 7 positive"),
        ({"velocity_limits": np.zeros(7)}, "velocity_limits must be 7 positive"),
        ({"velocity_limits": np.full(7, np.nan)}, "velocity_limits must be 7 positive"),
        ({"rest": np.zeros(6)}, "rest must have 7"),
        ({"rest": np.full(7, np.nan)}, "posture must be 7 finite"),
    ],
)
def test_a_solver_with_a_wrong_argument_is_refused(
    bare: mujoco.MjModel, changes: dict, message: str
) -> None:
    with pytest.raises(KinematicsError, match=message):
        _make(bare, **changes)


def test_a_joint_without_a_range_is_refused() -> None:
    xml = """<mujoco><worldbody><body><joint name="a"/><geom size="1"/><site name="s"/></body>
    </worldbody></mujoco>"""
    model = mujoco.MjModel.from_xml_string(xml)
    with pytest.raises(KinematicsError, match=r"\['a'\] need ranges"):
        ArmIK(model, joints=["a"], site="s", velocity_limits=[1.0], rest=[0.0])
