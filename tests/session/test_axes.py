"""From the controller to the tool, through the environment, with numbers written by hand.

World: x forward, y left, z up. Tracking: -z forward, -x left, y up for an operator of yaw 0.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from choreography import Script
from diary import Stage
from scipy.spatial.transform import Rotation

from envs.panda_env import PicoPandaEnv
from kinematics import Side
from kinematics.frames import rotation
from teleop_agent.frame import Button

CONTROLS = ("ee_delta", "ee_pose", "joint")
FORWARD, LEFT, UP = "forward", "left", "up"
WAYS = {  # facing in degrees: 10 cm of the hand in tracking [m]
    0: {FORWARD: (0.0, 0.0, -0.1), LEFT: (-0.1, 0.0, 0.0), UP: (0.0, 0.1, 0.0)},
    90: {FORWARD: (-0.1, 0.0, 0.0), LEFT: (0.0, 0.0, 0.1), UP: (0.0, 0.1, 0.0)},
    180: {FORWARD: (0.0, 0.0, 0.1), LEFT: (0.1, 0.0, 0.0), UP: (0.0, 0.1, 0.0)},
}
MOVED = {FORWARD: (0.06, 0.0, 0.0), LEFT: (0.0, 0.06, 0.0), UP: (0.0, 0.0, 0.06)}
"""Tool in world [m]: the hand's 10 cm times the scale of 0.6."""
TURNED = {  # wxyz of a tool that pointed down, (0, 1, 0, 0), after 30 degrees about the axis
    FORWARD: (-0.2588190, 0.9659258, 0.0, 0.0),
    LEFT: (0.0, 0.9659258, 0.0, -0.2588190),
    UP: (0.0, 0.9659258, 0.2588190, 0.0),
}
THIRTY = math.radians(30.0)


def tool_after(
    env: PicoPandaEnv, script: Script
) -> tuple[np.ndarray, Rotation, np.ndarray, Rotation]:
    """Return where the tool stood first and last."""
    script.hold(0.7)  # the servo and the filter come to rest
    script.press(Side.RIGHT, Button.SECONDARY)
    stage = Stage(env, script)
    stage.run()
    first = stage.diary.rows[0].observation
    last = env.measured(Side.RIGHT)
    start = first["robot0_eef_pos"].astype(float), rotation(first["robot0_eef_quat"].astype(float))
    return (*start, last.position, rotation(last.quat_wxyz))


@pytest.mark.parametrize("way", [FORWARD, LEFT, UP])
@pytest.mark.parametrize("facing", [0, 90, 180])
@pytest.mark.parametrize("control", CONTROLS)
def test_a_move_of_the_hand_moves_the_tool(
    panda: Callable[..., PicoPandaEnv], control: str, facing: int, way: str
) -> None:
    script = Script(yaw=math.radians(facing))
    script.engage()
    script.move(0.8, WAYS[facing][way])
    start, start_turn, end, end_turn = tool_after(panda(control=control), script)
    np.testing.assert_allclose(end - start, MOVED[way], atol=1.5e-3)  # m, per axis
    assert math.degrees((end_turn * start_turn.inv()).magnitude()) < 0.5


@pytest.mark.parametrize("way", [FORWARD, LEFT, UP])
@pytest.mark.parametrize("facing", [0, 90, 180])
@pytest.mark.parametrize("control", CONTROLS)
def test_a_turn_of_the_hand_turns_the_tool(
    panda: Callable[..., PicoPandaEnv], control: str, facing: int, way: str
) -> None:
    script = Script(yaw=math.radians(facing))
    script.engage()
    script.rotate(0.8, THIRTY * np.array(WAYS[facing][way]) / 0.1)
    start, start_turn, end, end_turn = tool_after(panda(control=control), script)
    assert math.degrees((start_turn * rotation((0.0, 1.0, 0.0, 0.0)).inv()).magnitude()) < 0.1
    assert math.degrees((end_turn * rotation(TURNED[way]).inv()).magnitude()) < 0.5
    np.testing.assert_allclose(end, start, atol=1.5e-3)  # m


@pytest.mark.parametrize("control", CONTROLS)
def test_turning_only_the_head_moves_nothing(
    panda: Callable[..., PicoPandaEnv], control: str
) -> None:
    script = Script(jitter_m=1e-9)
    script.engage()
    script.look(math.radians(150.0), 1.0, position=(0.3, 1.4, 0.2))
    start, start_turn, end, end_turn = tool_after(panda(control=control), script)
    assert np.linalg.norm(end - start) < 1e-4
    assert math.degrees((end_turn * start_turn.inv()).magnitude()) < 0.02


@pytest.mark.parametrize("control", CONTROLS)
def test_a_hand_that_is_not_engaged_moves_nothing(
    panda: Callable[..., PicoPandaEnv], control: str
) -> None:
    script = Script()
    script.engage()
    script.right.grip = 0.0
    script.hold(0.1)
    script.move(0.5, (0.2, 0.2, -0.2))
    start, _, end, _ = tool_after(panda(control=control), script)
    assert np.linalg.norm(end - start) < 1e-4
