"""The facing: taken from the head's yaw when asked, and only then."""

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from teleop_agent.facing import Facing
from teleop_agent.frame import TrackedPose
from teleop_agent.reasons import Reason


def head(turn: Rotation, **flags: bool) -> TrackedPose:
    flags = {"connected": True, "valid": True, "tracked": True} | flags
    return TrackedPose(**flags, matrix=np.column_stack([turn.as_matrix(), [0.0, 1.6, 0.0]]))


@pytest.mark.parametrize("yaw_degrees", [-170, -90, 0, 35, 90, 180])
@pytest.mark.parametrize("pitch_degrees", [-60, 0, 40])
@pytest.mark.parametrize("roll_degrees", [0, 25])
def test_only_the_yaw_counts(yaw_degrees, pitch_degrees, roll_degrees) -> None:
    facing = Facing()
    angles = [yaw_degrees, pitch_degrees, roll_degrees]
    assert facing.take(head(Rotation.from_euler("YXZ", angles, degrees=True))) is None
    forward = Rotation.from_rotvec([0, yaw_degrees, 0], degrees=True).apply([0, 0, -1])
    assert np.allclose(facing.R_world_tracking @ forward, [1, 0, 0], atol=1e-12)
    assert np.allclose(facing.R_world_tracking @ [0, 1, 0], [0, 0, 1], atol=1e-12)
    assert np.allclose(facing.T_world_tracking[:3, :3], facing.R_world_tracking)
    assert np.array_equal(facing.T_world_tracking[:, 3], [0, 0, 0, 1])
    assert not facing.T_world_tracking.flags.writeable


@pytest.mark.parametrize(
    ("pose", "reason"),
    [
        (TrackedPose(), Reason.DISCONNECTED),
        (head(Rotation.identity(), valid=False), Reason.INVALID),
        (head(Rotation.identity(), tracked=False), Reason.UNTRACKED),
        (TrackedPose(True, True, True), Reason.ZERO),
        (TrackedPose(True, True, True, np.full((3, 4), np.nan)), Reason.NON_FINITE),
        (head(Rotation.from_rotvec([1.5, 0, 0])), Reason.GAZE_VERTICAL),
    ],
)
def test_an_unusable_head_changes_nothing(pose, reason) -> None:
    facing = Facing()
    assert facing.take(pose) is reason
    assert facing.yaw is None
    facing = Facing(0.5)
    before = facing.R_world_tracking.copy()
    assert facing.take(pose) is reason
    assert facing.yaw == 0.5
    assert np.array_equal(facing.R_world_tracking, before)
