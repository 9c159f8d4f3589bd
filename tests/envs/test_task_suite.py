"""One-arm tasks: their guides solve them, and nothing less than the goal counts."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest

from envs.panda_env import PicoPandaEnv
from envs.tasks import TASKS
from envs.tasks.base import HELD
from envs.tasks.push import CARRIED
from envs.tasks.things import yaw_quat
from kinematics import EndEffectorTarget, Side, Waypoint
from kinematics.frames import Array

RIGHT = Side.RIGHT
SEEDS = {"place": 6, "stack": 6, "push": 6, "sort": 4, "drawer": 4, "peg": 6}
"""Episodes a task; `benchmarks/operator_success.py` runs a hundred."""
LOOK = 2
"""Control steps at 25 Hz between two looks at the guide."""


def build(task: str, **options: Any) -> PicoPandaEnv:
    """Return an environment without wrappers."""
    env = gym.make("PicoPanda-v0", task=task, control_hz=25, reward="dense", **options).unwrapped
    assert isinstance(env, PicoPandaEnv)
    return env


class Hand:
    """Do what the guide says, straight into the environment, at the pace of a careful person."""

    speed = np.array([0.4, 1.5])
    """m/s and rad/s."""

    def __init__(self, env: PicoPandaEnv, seed: int) -> None:
        """Begin an episode."""
        self.env, self.closure, self.steps = env, 0.0, 0
        self.reached: set[str] = set()
        """Subtasks that have come about."""
        env.reset(seed=seed)
        self.way = env.guide()

    def follow(self) -> tuple[bool, bool]:
        """Run one control step; return whether it succeeded and whether it is over."""
        env = self.env
        if self.steps % LOOK == 0:
            self.way = env.guide()
        done = env.task.subtasks(env.data)
        assert tuple(done) == env.task.subtask_names
        self.reached |= {name for name, is_done in done.items() if is_done}
        held = any(value for name, value in done.items() if name.endswith("grasped"))
        assert not (held and env.task.condition(env.data)), "what is held is not yet done"
        if self.way and self._met(self.way[0]):
            self.closure = self.way[0].target.closure
        return self.toward(self.way[0].target if self.way else env.commanded(RIGHT))

    def _met(self, waypoint: Waypoint) -> bool:
        tool, turn = self.env.measured(RIGHT), np.zeros(3)
        mujoco.mju_subQuat(turn, waypoint.target.quat_wxyz, tool.quat_wxyz)
        near = np.linalg.norm(waypoint.target.position - tool.position) <= waypoint.tolerance_m
        return bool(near and np.linalg.norm(turn) <= waypoint.tolerance_rad)

    def toward(self, goal: EndEffectorTarget) -> tuple[bool, bool]:
        """Run one control step toward ``goal``, the fingers as they are."""
        env, now, turn = self.env, self.env.commanded(RIGHT), np.zeros(3)
        way = goal.position - now.position
        mujoco.mju_subQuat(turn, goal.quat_wxyz, now.quat_wxyz)
        length = np.array([np.linalg.norm(way), np.linalg.norm(turn)])
        share = np.minimum(1.0, self.speed / env.control_hz / np.maximum(length, 1e-9))
        quat = now.quat_wxyz.copy()
        mujoco.mju_quatIntegrate(quat, turn, share[1])
        command = EndEffectorTarget(RIGHT, now.position + share[0] * way, quat, self.closure)
        obs, reward, terminated, truncated, info = env.step(env.encode({RIGHT: command}))
        assert env.observation_space.contains(obs)
        assert 0.0 <= reward < 1.0 or (reward == 1.0 and info["success"])
        self.steps += 1
        return info["success"], terminated or truncated


@dataclass
class Solved:
    """Hold a task's environment and the states in which its episodes succeeded."""

    env: PicoPandaEnv
    ends: list[Array] = field(default_factory=list)

    def done(self) -> PicoPandaEnv:
        """Return the environment in the first such state."""
        self.env.restore(self.ends[0])
        assert self.env.task.condition(self.env.data)
        return self.env


@pytest.fixture(scope="module")
def solve() -> Iterator[Callable[[str], Solved]]:
    """Return the function that gives a task's solved episodes, each task's once."""
    found: dict[str, Solved] = {}

    def run(task: str) -> Solved:
        if task not in found:
            found[task] = Solved(build(task))
            for seed in range(SEEDS[task]):
                _episode(found[task], seed)
        return found[task]

    yield run
    for solved in found.values():
        solved.env.close()


def _episode(solved: Solved, seed: int) -> None:
    hand, over, success = Hand(solved.env, seed), False, False
    while not over:
        success, over = hand.follow()
    if success:
        assert solved.env.guide() == []
        assert hand.reached == set(solved.env.task.subtask_names)
        solved.ends.append(solved.env.integration_state())


@pytest.mark.parametrize("task", SEEDS)
def test_the_guide_solves_its_task(solve: Callable[[str], Solved], task: str) -> None:
    allowed = 1 if task == "peg" else 0
    assert len(solve(task).ends) >= SEEDS[task] - allowed


@pytest.mark.parametrize("task", SEEDS)
def test_the_same_seed_gives_the_same_episode(solve: Callable[[str], Solved], task: str) -> None:
    """In another environment, bit for bit."""
    again = Solved(build(task))
    _episode(again, 0)
    np.testing.assert_array_equal(again.ends[0], solve(task).ends[0])
    again.env.close()


@pytest.mark.parametrize("task", [task for task in SEEDS if TASKS[task].resizable])
def test_the_guide_solves_other_sizes_too(task: str) -> None:
    solved = Solved(build(task, randomize=("sizes",)))
    for seed in (100, 101):
        _episode(solved, seed)
    assert len(solved.ends) == 2
    solved.env.close()


# --- resets ---


@pytest.mark.parametrize("task", SEEDS)
def test_what_is_drawn_lies_still(task: str) -> None:
    """The scene settles by less than 2 mm or mrad, and is not solved by waiting."""
    env = build(task)
    start = env.reset(seed=1)[0]["object"]
    hand = Hand(env, 1)
    for _ in range(25):
        success, _ = hand.toward(env.commanded(RIGHT))
        assert not success
    end = env.observe()["object"]
    np.testing.assert_allclose(end, start, rtol=0, atol=2e-3)
    env.close()


# --- what must not count ---


def put(env: PicoPandaEnv, body: str, position: Any, quat: Any = None, speed: Any = None) -> None:
    """Move a free body and derive what follows, contacts too."""
    joint = env.model.body("task/" + body).jntadr[0]
    at, dof = env.model.jnt_qposadr[joint], env.model.jnt_dofadr[joint]
    env.data.qpos[at : at + 3] = position
    if quat is not None:
        env.data.qpos[at + 3 : at + 7] = quat
    env.data.qvel[dof : dof + 6] = 0.0
    if speed is not None:
        env.data.qvel[dof : dof + 3] = speed
    mujoco.mj_forward(env.model, env.data)


def place_of(env: PicoPandaEnv, body: str) -> Array:
    """Return a body's position in world (3,) [m]."""
    return env.data.body("task/" + body).xpos.copy()


def counts(env: PicoPandaEnv) -> bool:
    """Return whether the present state meets the task's condition."""
    return env.task.condition(env.data)


@pytest.mark.parametrize("task", SEEDS)
def test_a_moment_is_not_enough(solve: Callable[[str], Solved], task: str) -> None:
    env = solve(task).done()
    env.data.userdata[HELD] = 0.0
    assert counts(env)
    assert not env.task.success(env.data)
    env.task.update(env.data, env.task.hold_steps - 1)
    assert not env.task.success(env.data)
    env.task.update(env.data, 1)
    assert env.task.success(env.data)


LOWER = {"place": 0.025, "stack": 0.002, "drawer": 0.030, "peg": 0.0}
"""m; from where the guide lets go to where the object would lie."""


@pytest.mark.parametrize("task", LOWER)
def test_what_is_still_held_does_not_count(task: str) -> None:
    """In its place, but in the fingers: no success in a second."""
    env = build(task)
    hand = Hand(env, 0)
    while not _about_to_let_go(env):
        hand.follow()
    goal = env.commanded(RIGHT)
    low = EndEffectorTarget(RIGHT, goal.position - (0.0, 0.0, LOWER[task]), goal.quat_wxyz, 1.0)
    for _ in range(25):
        success, _ = hand.toward(low)
        assert not success
    assert env.task.subtasks(env.data)["grasped"]
    env.close()


def _about_to_let_go(env: PicoPandaEnv) -> bool:
    return env.task.subtasks(env.data)["grasped"] and env.guide()[0].target.closure == 0.0


def test_a_cube_beside_or_across_the_bin_is_not_placed(solve: Callable[[str], Solved]) -> None:
    env = solve("place").done()
    middle = place_of(env, "bin")
    out = env.data.body("task/bin").xmat.reshape(3, 3)[:, 0]
    good = np.append(middle[:2], 0.024)
    for position, speed, expected in (
        (good, None, True),
        (middle + 0.11 * out + (0.0, 0.0, 0.02), None, False),  # beside it
        (middle + 0.0725 * out + (0.0, 0.0, 0.06), None, False),  # on the rim
        (good, (0.0, 0.0, 0.1), False),  # moving
        (np.add(good, (0.0, 0.0, 0.03)), None, False),  # over the rim
    ):
        put(env, "cube", position, speed=speed)
        assert counts(env) == expected


def test_a_cube_beside_or_under_the_other_is_not_stacked(solve: Callable[[str], Solved]) -> None:
    env = solve("stack").done()
    green, red = place_of(env, "green/cube"), place_of(env, "red/cube")
    put(env, "red/cube", red, speed=(0.05, 0.0, 0.0))
    assert not counts(env)
    edge = (np.cos(np.pi / 8), np.sin(np.pi / 8), 0.0, 0.0)  # a cube on its edge is 28 mm high
    put(env, "red/cube", np.add(green, (0.0, 0.0, 0.0482)), edge)
    assert not counts(env)
    put(env, "red/cube", np.add(green, (0.041, 0.0, 0.0)), yaw_quat(0.0))
    assert not counts(env)
    put(env, "red/cube", (*green[:2], 0.02))
    put(env, "green/cube", (*green[:2], 0.0599))
    assert not counts(env)


def test_a_puck_carried_or_passing_is_not_pushed(solve: Callable[[str], Solved]) -> None:
    env = solve("push").done()
    zone, puck = place_of(env, "zone"), place_of(env, "puck")
    for offset, speed, expected in ((0.0, 0.0, True), (0.033, 0.0, False), (0.0, 0.05, False)):
        put(env, "puck", (zone[0] + offset, zone[1], puck[2]), speed=(speed, 0.0, 0.0))
        assert counts(env) == expected
    hand = Hand(env, 0)
    zone = place_of(env, "zone")
    put(env, "puck", (*zone[:2], 0.06))  # dropped onto the zone
    for _ in range(50):
        success, _ = hand.toward(env.commanded(RIGHT))
        assert not success
    assert env.task.subtasks(env.data)["in_zone"]
    assert env.data.userdata[CARRIED]
    put(env, "puck", (zone[0], zone[1] + 0.2, puck[2]))  # outside it may begin anew
    hand.toward(env.commanded(RIGHT))
    assert not env.data.userdata[CARRIED]


def test_a_carried_puck_is_pushed_out_and_in_again() -> None:
    env = build("push")
    hand = Hand(env, 3)
    put(env, "puck", (*place_of(env, "zone")[:2], 0.03))
    success, over = False, False
    while not over:
        success, over = hand.follow()
    assert success
    env.close()


def test_three_of_four_or_the_wrong_bin_is_not_sorted(solve: Callable[[str], Solved]) -> None:
    env = solve("sort").done()
    names = ("red_1", "red_2", "blue_1", "blue_2")
    at = {name: place_of(env, f"{name}/small_cube") for name in names}
    for name in names:
        put(env, f"{name}/small_cube", (0.45, 0.0, 0.015))
        assert not counts(env)
        put(env, f"{name}/small_cube", at[name])
        assert counts(env)
    put(env, "red_1/small_cube", at["blue_1"])
    put(env, "blue_1/small_cube", at["red_1"])
    assert not counts(env)


def test_a_cube_on_the_cabinet_or_in_an_open_drawer_does_not_count(
    solve: Callable[[str], Solved],
) -> None:
    env = solve("drawer").done()
    cube, opening = place_of(env, "cube"), env.data.joint("task/tray_joint")
    shut = float(opening.qpos[0])
    opening.qpos[0] = 0.03  # the cube stays where it is, still in the drawer
    mujoco.mj_forward(env.model, env.data)
    assert env.task.subtasks(env.data)["in_drawer"]
    assert not counts(env)
    opening.qpos[0], opening.qvel[0] = shut, -0.1
    assert not counts(env)
    opening.qvel[0] = 0.0
    assert counts(env)
    for height in (0.10, 0.09):  # on the cabinet, whose top is 80 mm high
        put(env, "cube", (*cube[:2], height))
        assert not counts(env)
    put(env, "cube", (0.4, 0.3, 0.02))
    assert not counts(env)


def test_a_drawer_with_a_cube_before_it_is_opened_after_all() -> None:
    """The guide lays the cube aside first."""
    env = build("drawer")
    hand = Hand(env, 2)
    front = place_of(env, "drawer")
    put(env, "cube", (front[0] - 0.15, front[1], 0.02))
    success, over = False, False
    while not over:
        success, over = hand.follow()
    assert success
    env.close()


def test_a_peg_in_the_chamfer_beside_or_aslant_is_not_inserted(
    solve: Callable[[str], Solved],
) -> None:
    env = solve("peg").done()
    hole = place_of(env, "socket")
    quat = env.data.body("task/socket").xquat.copy()
    for end, expected in ((0.005, True), (0.019, True), (0.021, False), (0.036, False)):
        put(env, "peg", np.add(hole, (0.0, 0.0, end)), quat)  # 40 mm less is the depth
        assert counts(env) == expected
    put(env, "peg", np.add(hole, (0.0, 0.0, 0.041)), quat)  # on the socket
    assert not counts(env)
    put(env, "peg", np.add(hole, (0.08, 0.0, 0.0)), quat)  # beside it, as low
    assert not counts(env)
    lean, leaning = np.array([np.cos(0.1), np.sin(0.1), 0.0, 0.0]), np.zeros(4)
    mujoco.mju_mulQuat(leaning, quat, lean)  # by 0.2 rad
    put(env, "peg", np.add(hole, (0.0, 0.0, 0.005)), leaning)
    assert not counts(env)


def test_a_dropped_cube_is_fetched_again() -> None:
    """Taken out of the fingers on the way, in every task that carries one."""
    for task, body in (("place", "cube"), ("stack", "red/cube"), ("drawer", "cube")):
        env = build(task)
        hand = Hand(env, 4)
        start = place_of(env, body)
        success, over, dropped = False, False, False
        while not over:
            success, over = hand.follow()
            if not dropped and place_of(env, body)[2] > 0.08:
                put(env, body, start)
                dropped = True
        assert dropped and success, task
        env.close()
