"""Ways of one tool that guides are made of.

A guide looks at the state alone. Each function here therefore returns what remains of its way,
next first, and nothing once the tool has arrived; whatever goes wrong, the next look begins anew.
"""

import math
from collections.abc import Sequence

import mujoco
import numpy as np

from kinematics import EndEffectorTarget, Waypoint
from kinematics.frames import Array

SLACK = 4 / 3
"""How much farther than its tolerance a tool that has arrived may be: no dithering at the edge."""
TURN = 0.12
"""rad; a person sees and corrects that much."""
CLEARANCE = 0.10
"""m; how far over its goal a tool comes from the side: fingers and a held object clear what lies
around."""
OPEN = 0.2
"""Closure below which the fingers go past what they are to grasp."""
CLOSED = 0.9
"""Closure above which the fingers are a fist to push with."""
TURN_LIMIT = 1.3
"""rad; yaw of the tool from home that is within the wrist's range everywhere on the table."""


def go(
    tool: EndEffectorTarget,
    position: Array,
    quat: Array | None = None,
    closure: float | None = None,
    tolerance: float = 0.02,
    turn: float = TURN,
) -> Waypoint:
    """Return the waypoint at a position (3,) [m]; what is not given stays as the tool's."""
    target = EndEffectorTarget(
        tool.side,
        position,
        tool.quat_wxyz if quat is None else quat,
        tool.closure if closure is None else closure,
    )
    return Waypoint(target, tolerance_m=tolerance, tolerance_rad=turn)


def rise(tool: EndEffectorTarget, height: float, closure: float) -> Waypoint:
    """Return the waypoint at ``height`` [m] straight over or under the tool."""
    return go(tool, at_height(tool.position, height), closure=closure)


def approach(
    tool: EndEffectorTarget,
    position: Array,
    quat: Array,
    closure: float,
    tolerance: float = 0.006,
    clearance: float = CLEARANCE,
    turn: float = TURN,
) -> list[Waypoint]:
    """Come to a pose from above: up where the tool is, across, down."""
    offset = tool.position - position
    over = float(np.hypot(offset[0], offset[1]))
    turned = turn_between(quat, tool.quat_wxyz) < turn * SLACK
    if over < tolerance * SLACK and abs(offset[2]) < tolerance * SLACK and turned:
        return []
    down = go(tool, position, quat, closure, tolerance, turn)
    hover_tolerance = tolerance * SLACK
    if over < hover_tolerance * 1.5 and turned:
        return [down]
    height = position[2] + clearance
    hover = go(tool, at_height(position, height), quat, closure, hover_tolerance, turn)
    if tool.position[2] < height - 0.4 * clearance:
        return [rise(tool, height, closure), hover, down]
    return [hover, down]


def grasp(tool: EndEffectorTarget, position: Array, quat: Array) -> list[Waypoint]:
    """Come open from above and close."""
    way = approach(tool, position, quat, 0.0)
    if way and tool.closure > OPEN:  # before coming down: closed, it would press on the object
        way.insert(0, go(tool, tool.position, closure=0.0))
    return [*way, go(tool, position, quat, 1.0, 0.006)]


def release(
    tool: EndEffectorTarget,
    position: Array,
    quat: Array,
    tolerance: float = 0.006,
    turn: float = TURN,
) -> list[Waypoint]:
    """Carry what is held to where it is let go, and open."""
    way = approach(tool, position, quat, 1.0, tolerance, turn=turn)
    return [*way, go(tool, position, quat, 0.0, tolerance, turn)]


def retreat(tool: EndEffectorTarget, height: float) -> list[Waypoint]:
    """Open, then go up."""
    up = rise(tool, height, 0.0)
    return [up] if tool.closure < OPEN else [go(tool, tool.position, closure=0.0), up]


def flat_axes(quat: Array) -> list[float]:
    """Return the yaws [rad] of a box's axes that lie flattest, a quarter turn apart."""
    matrix = np.zeros(9)
    mujoco.mju_quat2Mat(matrix, quat)
    axes = matrix.reshape(3, 3)[:2].T.tolist()
    x, y = max(axes, key=lambda axis: math.hypot(*axis))
    return [math.atan2(y, x) + quarter * math.pi / 2 for quarter in range(4)]


def tool_down(tool: EndEffectorTarget, yaws: Sequence[float], limit: float = TURN_LIMIT) -> Array:
    """Return the wxyz of the tool pointing down, its x at one of ``yaws`` [rad] in world.

    The nearest to the tool's own among those within ``limit`` of home; else the nearest to home.
    """
    half = wrap(yaws[best_yaw(tool, yaws, limit)]) / 2
    return np.array([0.0, math.cos(half), math.sin(half), 0.0])


def best_yaw(tool: EndEffectorTarget, yaws: Sequence[float], limit: float = TURN_LIMIT) -> int:
    """Return which of ``yaws`` [rad] suits the tool best, as ``tool_down`` chooses."""
    heading = np.zeros(3)
    mujoco.mju_rotVecQuat(heading, np.array([1.0, 0.0, 0.0]), tool.quat_wxyz)
    own = math.atan2(heading[1], heading[0])
    turns = [abs(wrap(yaw)) for yaw in yaws]
    within = [index for index, turn in enumerate(turns) if turn <= limit]
    if within:
        return min(within, key=lambda index: abs(wrap(yaws[index] - own)))
    return turns.index(min(turns))


def wrap(angle: float) -> float:
    """Return an angle within -pi .. pi."""
    return (angle + math.pi) % (2 * math.pi) - math.pi


def turn_between(quat: Array, other: Array) -> float:
    """Return the angle [rad] between two wxyz."""
    turn = np.zeros(3)
    mujoco.mju_subQuat(turn, quat, other)
    return float(mujoco.mju_norm3(turn))


def at_height(position: Array, z: float) -> Array:
    """Return the point (3,) over or under ``position`` at height ``z`` [m]."""
    return np.array([position[0], position[1], z])
