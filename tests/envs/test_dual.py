"""Two arms: which is which, where they stand, and that their tasks can and cannot be solved so."""

import json
import multiprocessing
import pickle
import re
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest
from gymnasium.envs.registration import EnvSpec

from envs.errors import ModelError, OptionError
from envs.panda_env import PicoPandaEnv
from envs.robots import MODELS
from envs.scene import BASES
from envs.tasks import TASKS
from envs.tasks.handover import PASSED
from envs.tasks.open_lid import START
from envs.tasks.two_arm import met
from kinematics import EndEffectorTarget, Side
from kinematics.frames import Array

RIGHT, LEFT = Side.RIGHT, Side.LEFT
DUAL = [name for name, task in TASKS.items() if task.n_arms == 2]
MODES = {"ee_delta": 7, "ee_pose": 10, "joint": 8}
DOWN = np.array([0.0, 1.0, 0.0, 0.0])
Make = Callable[..., PicoPandaEnv]


def build(**options: Any) -> PicoPandaEnv:
    """Return a two-arm environment without wrappers."""
    env = gym.make("PicoDualPanda-v0", **options).unwrapped
    assert isinstance(env, PicoPandaEnv)
    return env


@pytest.fixture
def make_dual() -> Iterator[Make]:
    """Return ``build``; what it made is closed at the end."""
    made = []

    def make(**options: Any) -> PicoPandaEnv:
        made.append(build(**options))
        return made[-1]

    yield make
    for env in made:
        env.close()


@pytest.fixture(scope="module")
def lift() -> Iterator[PicoPandaEnv]:
    """Return one environment for the tests that only need two arms; each resets it."""
    env = build(terminate_on_success=False)
    yield env
    env.close()


# --- which is which ---


def test_the_tasks_for_two_arms_are_for_two_arms() -> None:
    assert set(DUAL) == {"lift_tray", "handover", "dual_peg", "open_lid"}
    with pytest.raises(OptionError, match=r"task='pick'.*lift_tray"):
        gym.make("PicoDualPanda-v0", task="pick")
    with pytest.raises(OptionError, match=r"task='lift_tray'.*pick"):
        gym.make("PicoPanda-v0", task="lift_tray")


def test_robot0_is_the_right_one(lift: PicoPandaEnv) -> None:
    """The right arm stands at y < 0, comes first in actions and is robot0 in observations."""
    assert lift.sides == (RIGHT, LEFT)
    obs, _ = lift.reset(seed=0)
    assert obs["robot0_eef_pos"][1] < 0.0 < obs["robot1_eef_pos"][1]
    for index, side in enumerate(lift.sides):
        action = np.zeros(14, np.float32)
        action[7 * index + 2] = -0.5
        before, _ = lift.reset(seed=0)
        for _ in range(5):
            after, *_ = lift.step(action)
        move = after[f"robot{index}_target_pos"] - before[f"robot{index}_target_pos"]
        # Five steps of 10 mm; float32.
        np.testing.assert_allclose(move, [0.0, 0.0, -0.05], atol=1e-6)
        np.testing.assert_array_equal(
            after[f"robot{1 - index}_target_pos"], before[f"robot{1 - index}_target_pos"]
        )
        assert lift.measured(side).position[2] < lift.measured(side.other).position[2] - 0.03


# --- B24: order and names ---


def _swing(env: PicoPandaEnv, side: Side) -> dict[Side, Array]:
    """Move one arm only for half a second; return both arms' joint paths."""
    env.reset(seed=0)
    path: dict[Side, list[Array]] = {one: [] for one in env.sides}
    start = {one: env.commanded(one) for one in env.sides}
    for k in range(25):
        offset = 0.004 * (k + 1) * np.array([0.5, 1.0, -1.0])
        moved = EndEffectorTarget(side, start[side].position + offset, DOWN, 0.0)
        env.step(env.encode({**start, side: moved}))
        for one, arm in env.arms.items():
            path[one].append(env.data.qpos[arm.qpos_adr].copy())
    return {one: np.array(rows) for one, rows in path.items()}


@pytest.mark.parametrize("control", MODES)
@pytest.mark.parametrize("side", Side)
def test_one_hand_moves_one_arm(make_dual: Make, side: Side, control: str) -> None:
    """The other arm's joints keep within 1e-6 rad of where they were."""
    env = make_dual(control=control)
    path = _swing(env, side)
    home = np.array(env.arms[side].arm.home)
    assert np.abs(path[side] - home).max() > 0.05
    # float32 joint targets are rounded by up to 2e-7 rad of a range of 6.
    assert np.abs(path[side.other] - home).max() < 1e-6


def _shuffled(folder: Path, name: str = "joint5") -> str:
    """Write a Panda whose actuators stand in another order and with ``name`` for joint5's."""
    shutil.copytree(MODELS / "panda", folder / "panda")
    shutil.copytree(MODELS / "franka_hand", folder / "franka_hand")
    path = folder / "panda" / "panda.xml"
    text = path.read_text(encoding="utf-8")
    head, section, tail = re.split(r"(?<=<actuator>)(.*)(?=</actuator>)", text, flags=re.DOTALL)
    lines = re.findall(r"<position[^>]*/>", section)
    assert len(lines) == 7
    joint5 = next(k for k, line in enumerate(lines) if 'name="joint5"' in line)
    lines[joint5] = lines[joint5].replace('name="joint5"', f'name="{name}"')
    order = [3, 0, 6, 2, 5, 1, 4]
    text = head + "".join(lines[k] for k in order) + tail
    text = re.sub(r"<keyframe>.*</keyframe>", "", text, flags=re.DOTALL)  # its ctrl has an order
    path.write_text(text, encoding="utf-8")
    return str(path.with_name("robot.toml"))


def test_the_order_in_the_file_does_not_matter(make_dual: Make, tmp_path: Path) -> None:
    """B24: actuators in another order, only the left arm asked to move."""
    expected, found = (
        _swing(make_dual(robot=robot), LEFT) for robot in ("panda", _shuffled(tmp_path))
    )
    for side in Side:
        # Only sums over actuators come in another order.
        np.testing.assert_allclose(found[side], expected[side], rtol=0, atol=1e-9)
    assert np.abs(found[RIGHT] - found[RIGHT][0]).max() < 1e-6


def test_a_misspelt_actuator_is_named(tmp_path: Path) -> None:
    """B24: with what it should be and what there is."""
    with pytest.raises(ModelError, match=r"actuator \['joint5'\].*joint4.*jiont5"):
        build(robot=_shuffled(tmp_path, "jiont5"))


# --- holding, bounds, bases ---


def test_zero_holds_exactly(lift: PicoPandaEnv) -> None:
    lift.reset(seed=2)
    rng = np.random.default_rng(0)
    for _ in range(20):
        lift.step(rng.uniform(-0.5, 0.5, 14).astype(np.float32))
    held = {side: lift.commanded(side) for side in lift.sides}
    for _ in range(50):
        lift.step(np.zeros(14, np.float32))
    for side, target in held.items():
        np.testing.assert_array_equal(lift.commanded(side).position, target.position)
        np.testing.assert_array_equal(lift.commanded(side).quat_wxyz, target.quat_wxyz)


@pytest.mark.parametrize("way", [(0, 1, 0), (0, -1, 0), (-1, 0, 0), (0, 0, -1)])
def test_the_target_stays_in_the_box_of_its_own_base(lift: PicoPandaEnv, way: Any) -> None:
    """The boxes turn with the bases; both hands pushed the same way of the world."""
    lift.reset(seed=0)
    action = np.tile([*way, 0.0, 0.0, 0.0, -1.0], 2).astype(np.float32)
    for _ in range(80):
        lift.step(action)
        for arm in lift.arms.values():
            p_base = arm.workspace.to_base(arm.position)
            # Rounding in a turned frame.
            assert np.all(p_base >= arm.workspace.lower - 1e-9)
            assert np.all(p_base <= arm.workspace.upper + 1e-9)
    if way[2] < 0:
        assert all(arm.position[2] == pytest.approx(0.01, abs=1e-9) for arm in lift.arms.values())


def test_bases_stand_where_they_should(lift: PicoPandaEnv) -> None:
    for side, (x, y, z, yaw) in BASES[2].items():
        body = lift.data.body(side.prefix + "link0")
        np.testing.assert_allclose(body.xpos, [x, y, z], atol=1e-12)
        ahead = body.xmat.reshape(3, 3)[:, 0]
        np.testing.assert_allclose(ahead, [np.cos(yaw), np.sin(yaw), 0.0], atol=1e-12)
        # Both are turned toward the middle of the table.
        assert ahead[1] * y < 0.0
        np.testing.assert_allclose(
            lift.workspace(side).to_world(np.zeros(3)), [x, y, z], atol=1e-12
        )


def test_base_pose_is_an_option_that_a_file_can_hold(make_dual: Make) -> None:
    """As JSON, in the environment's spec; what is not given stays."""
    made = gym.make("envs:PicoDualPanda-v0", base_pose={"left": [0.1, 0.4, 0.0, -0.5]})
    assert made.spec is not None
    text = made.spec.to_json()
    assert json.loads(text)["kwargs"]["base_pose"] == {"left": [0.1, 0.4, 0.0, -0.5]}
    again = gym.make(EnvSpec.from_json(text)).unwrapped
    assert isinstance(again, PicoPandaEnv)
    left, right = (again.data.body(f"{side}/link0").xpos for side in ("left", "right"))
    np.testing.assert_allclose(left, [0.1, 0.4, 0.0], atol=1e-12)
    np.testing.assert_allclose(right, BASES[2][RIGHT][:3], atol=1e-12)
    one, two = made.reset(seed=3)[0], again.reset(seed=3)[0]
    for key in one:
        np.testing.assert_array_equal(one[key], two[key])
    made.close()
    again.close()
    for wrong in ({"middle": [0, 0, 0, 0]}, {"left": [0, 0, 0]}, {"left": [0, 0, 0, np.nan]}):
        with pytest.raises(OptionError, match="base_pose"):
            make_dual(base_pose=wrong)


def test_both_arms_reach_the_middle(lift: PicoPandaEnv) -> None:
    """Tool down at any yaw up to 90 degrees: where things change hands."""
    for x, y, z in product((0.40, 0.50, 0.60), (-0.12, 0.0, 0.12), (0.02, 0.25)):
        for half, arm in product((-np.pi / 4, 0.0, np.pi / 4), lift.arms.values()):
            point = np.array([x, y, z])
            assert np.all(arm.workspace.clamp(point) == point)
            quat = [0.0, np.cos(half), np.sin(half), 0.0]
            assert arm.ik.solve(point, quat).ok, (arm.side, point, half)


def _between_arms(env: PicoPandaEnv) -> list[tuple[str, str]]:
    pairs = [[env.model.geom(g).name for g in contact.geom] for contact in env.data.contact]
    return [(a, b) for a, b in pairs if {a.split("/")[0], b.split("/")[0]} == {"right", "left"}]


@pytest.mark.parametrize("task", DUAL)
def test_nothing_touches_the_arms_at_home(make_dual: Make, task: str) -> None:
    env = make_dual(task=task)
    for seed in range(20):
        env.reset(seed=seed)
        for contact in env.data.contact:
            names = [env.model.geom(g).name for g in contact.geom]
            assert not any(name.startswith(("right/", "left/")) for name in names), names


# --- the same again ---


def _flat(obs: dict[str, np.ndarray]) -> bytes:
    return np.concatenate([obs[key].ravel() for key in sorted(obs)]).tobytes()


def test_copies_and_vectors_give_the_same_bits(make_dual: Make) -> None:
    """A second environment, an unpickled one and worker processes."""
    make = partial(make_dual, task="handover")
    rng = np.random.default_rng(4)
    actions = rng.uniform(-1.0, 1.0, (12, 14)).astype(np.float32)
    env, other = make(), make()
    assert _flat(env.reset(seed=5)[0]) == _flat(other.reset(seed=5)[0])
    for action in actions[:6]:
        assert _flat(env.step(action)[0]) == _flat(other.step(action)[0])
    twin = pickle.loads(pickle.dumps(env))
    for action in actions[6:]:
        last = _flat(env.step(action)[0])
        assert last == _flat(twin.step(action)[0])
    twin.close()
    options = {"context": "spawn"}
    for mode, arguments in (("sync", None), ("async", options)):
        vector = gym.make_vec(
            "envs:PicoDualPanda-v0",
            num_envs=2,
            task="handover",
            vectorization_mode=mode,
            vector_kwargs=arguments,
        )
        try:
            vector.reset(seed=5)
            for action in actions:
                obs, *_ = vector.step(np.stack([action, action]))
        finally:
            vector.close()
        assert _flat({key: value[0] for key, value in obs.items()}) == last
        assert _flat({key: value[1] for key, value in obs.items()}) != last
    assert multiprocessing.active_children() == []


# --- tasks: resets ---


class Extremes:
    """Stand in for a generator: every draw is at the lower or the upper end of its range."""

    def __init__(self, ends: tuple[int, ...]) -> None:
        """``ends`` has 0 or 1 for each number of a draw."""
        self._ends = ends

    def uniform(self, lower: Array, upper: Array) -> Array:
        """Return a corner."""
        return np.where(self._ends, upper, lower)


@pytest.mark.parametrize("task", DUAL)
def test_resets_can_be_solved(make_dual: Make, task: str) -> None:
    """Both hands reach all that the guide asks for, at every corner of the area and inside it."""
    env = make_dual(task=task)
    rngs: list[Any] = [Extremes(ends) for ends in product((0, 1), repeat=3)]
    rngs += [np.random.default_rng(seed) for seed in range(8)]
    for rng in rngs:
        env.reset(seed=0)
        env.task.reset(env.data, rng)
        mujoco.mj_forward(env.model, env.data)
        assert not env.task.condition(env.data)
        for waypoint in env.guide():
            target = waypoint.target
            arm = env.arms[target.side]
            assert np.all(arm.workspace.clamp(target.position) == target.position)
            assert arm.ik.solve(target.position, target.quat_wxyz).ok, (rng, target)


@pytest.mark.parametrize("task", DUAL)
def test_resets_differ_and_lie_still(make_dual: Make, task: str) -> None:
    """What is drawn stays where it is: the scene settles by less than 2 mm or mrad."""
    env = make_dual(task=task, terminate_on_success=False)
    seen = set()
    for seed in (1, 2):
        start = env.reset(seed=seed)[0]["object"]
        seen.add(start.tobytes())
        action = env.encode({side: env.commanded(side) for side in env.sides})
        for _ in range(25):
            end, _, _, _, info = env.step(action)
        np.testing.assert_allclose(end["object"], start, rtol=0, atol=2e-3)
        assert not info["success"]
    assert len(seen) == 2


# --- tasks: guides ---


class Hands:
    """Do what the guide says, each hand the first of its own, straight into the environment."""

    speed = np.array([0.5, 1.5])
    """m/s and rad/s: half of what the environment allows."""

    def __init__(self, env: PicoPandaEnv, seed: int) -> None:
        """Begin an episode."""
        self.steps = 0
        self.env, self.closure = env, dict.fromkeys(env.sides, 0.0)
        self.reached: set[str] = set()
        """Subtasks that have come about."""
        env.reset(seed=seed)

    def _toward(self, side: Side, goal: EndEffectorTarget) -> EndEffectorTarget:
        """Return the target one control step from the commanded one toward ``goal``."""
        now, turn = self.env.commanded(side), np.zeros(3)
        way = goal.position - now.position
        mujoco.mju_subQuat(turn, goal.quat_wxyz, now.quat_wxyz)
        length = np.array([np.linalg.norm(way), np.linalg.norm(turn)])
        share = np.minimum(1.0, self.speed / self.env.control_hz / np.maximum(length, 1e-9))
        quat = now.quat_wxyz.copy()
        mujoco.mju_quatIntegrate(quat, turn, share[1])
        return EndEffectorTarget(side, now.position + share[0] * way, quat, self.closure[side])

    def step(self) -> tuple[bool, bool]:
        """Run one control step; return whether it succeeded and whether it is over."""
        env, guide, firsts = self.env, self.env.guide(), {}
        for waypoint in guide:
            firsts.setdefault(waypoint.target.side, waypoint)
        tools, commands = {side: env.measured(side) for side in env.sides}, {}
        for side in env.sides:
            goal = firsts[side].target
            if met(firsts[side], tools):
                self.closure[side] = goal.closure
                goal = env.commanded(side)
            commands[side] = self._toward(side, goal)
        _, reward, terminated, truncated, info = env.step(env.encode(commands))
        assert 0.0 <= reward < 1.0 or (reward == 1.0 and info["success"])
        self.steps += 1
        if self.steps % 3 == 0 or info["success"]:
            done = env.task.subtasks(env.data)
            assert tuple(done) == env.task.subtask_names
            self.reached |= {name for name, is_done in done.items() if is_done}
        return info["success"], terminated or truncated


SEEDS = 5
"""Episodes a task; `benchmarks/operator_success.py` runs a hundred."""


@pytest.fixture(scope="module", params=DUAL)
def solved(request: pytest.FixtureRequest) -> Iterator[tuple[PicoPandaEnv, list[Any]]]:
    """Return each task's environment and, of some seeds, the state and memory at each success."""
    env = build(task=request.param, reward="dense")
    ends = []
    for seed in range(SEEDS):
        hands, over = Hands(env, seed), False
        while not over:
            success, over = hands.step()
        if success:
            assert env.guide() == []
            assert hands.reached == set(env.task.subtask_names)
            ends.append((env.integration_state(), env.controller_memory()))
    yield env, ends
    env.close()


def test_guides_solve_their_tasks(solved: tuple[PicoPandaEnv, list[Any]]) -> None:
    env, ends = solved
    assert len(ends) >= (SEEDS - 1 if env.task.name == "dual_peg" else SEEDS)


# --- tasks: what must not count ---


def _qpos(env: PicoPandaEnv, joint: str) -> Array:
    """Return a view of a joint's part of qpos."""
    return env.data.joint("task/" + joint).qpos


def _open(side: Side, env: PicoPandaEnv) -> None:
    env.data.qpos[env.arms[side].finger_adr] = 0.04


def _close(side: Side, env: PicoPandaEnv) -> None:
    env.data.qpos[env.arms[side].finger_adr] = 0.0


def _shift(joint: str, by: tuple[float, float, float], env: PicoPandaEnv) -> None:
    _qpos(env, joint)[:3] += by


def _tilt(joint: str, degrees: float, axis: int, env: PicoPandaEnv) -> None:
    turn = np.zeros(3)
    turn[axis] = np.deg2rad(degrees)
    quat = _qpos(env, joint)[3:7].copy()
    mujoco.mju_quatIntegrate(quat, turn, 1.0)
    _qpos(env, joint)[3:7] = quat


def _user(slot: int, value: float, env: PicoPandaEnv) -> None:
    env.data.userdata[slot] += value


def _lid(angle: float, env: PicoPandaEnv) -> None:
    _qpos(env, "lid_hinge")[0] = angle


NOT_DONE: dict[str, dict[str, Callable[[PicoPandaEnv], None]]] = {
    "lift_tray": {
        "right hand off": partial(_open, RIGHT),
        "left hand off": partial(_open, LEFT),
        "12 degrees": partial(_tilt, "tray_joint", 12.0, 0),
        "12 degrees the other way": partial(_tilt, "tray_joint", -12.0, 1),
        "too low": partial(_shift, "tray_joint", (0.0, 0.0, -0.06)),
    },
    "handover": {
        "never held by both": partial(_user, PASSED, -1.0),
        "right hand closed": partial(_close, RIGHT),
        "left hand off": partial(_open, LEFT),
        "bar gone": partial(_shift, "bar_joint", (0.0, 0.0, -0.2)),
    },
    "dual_peg": {
        "right hand off": partial(_open, RIGHT),
        "left hand off": partial(_open, LEFT),
        "peg beside": partial(_shift, "long_peg_joint", (0.0, 0.0, 0.06)),
        "peg drawn out": partial(_shift, "long_peg_joint", (0.0, -0.02, 0.0)),
    },
    "open_lid": {
        "lid at 90 degrees": partial(_lid, np.pi / 2),
        "lid closed": partial(_lid, 0.0),
        "left hand off": partial(_open, LEFT),
        "right hand closed": partial(_close, RIGHT),
        "box dragged away": partial(_user, START, 0.04),
        "box tilted": partial(_tilt, "lidded_box_joint", 12.0, 1),
    },
}


def test_what_does_not_count(solved: tuple[PicoPandaEnv, list[Any]]) -> None:
    """From a success, one thing wrong at a time."""
    env, ends = solved
    for what, spoil in NOT_DONE[env.task.name].items():
        env.restore(*ends[0])
        assert env.task.condition(env.data)
        spoil(env)
        mujoco.mj_forward(env.model, env.data)
        assert not env.task.condition(env.data), what
        assert 0.0 <= env.task.shaped_reward(env.data) < 1.0


def test_a_restored_success_is_one_and_a_new_episode_is_none(
    solved: tuple[PicoPandaEnv, list[Any]],
) -> None:
    """Counters are in the state, and reset forgets them."""
    env, ends = solved
    env.restore(*ends[-1])
    assert env.task.success(env.data)
    env.reset(seed=0)
    assert not env.task.success(env.data)
    kept = env.data.userdata[START:] if env.task.name != "open_lid" else env.data.userdata[4:]
    assert not kept.any()


def test_left_alone_is_no_handover() -> None:
    """The left hand picks the bar up by itself and lifts it: all but the handing over."""
    env = build(task="handover", terminate_on_success=False)
    env.reset(seed=0)
    bar = _qpos(env, "bar_joint")
    bar[:7] = (0.5, 0.15, 0.02, np.cos(np.pi / 4), 0.0, 0.0, np.sin(np.pi / 4))
    mujoco.mj_forward(env.model, env.data)
    down, over = np.array([0.5, 0.15, 0.02]), np.array([0.5, 0.15, 0.22])
    away = env.commanded(RIGHT)
    turned = np.array([0.0, 1.0, 0.0, 0.0])
    for point, closure, steps in ((over, 0, 60), (down, 0, 30), (down, 1, 40)):
        _command(env, away, EndEffectorTarget(LEFT, point, turned, closure), steps)
    up = EndEffectorTarget(LEFT, over, turned, 1.0)
    info = _command(env, away, up, 60)
    assert bar[2] > 0.15, "the left hand has it"
    assert not info["success"]
    assert not env.task.condition(env.data)
    env.close()


def _command(
    env: PicoPandaEnv, right: EndEffectorTarget, left: EndEffectorTarget, steps: int
) -> dict[str, Any]:
    """Go straight to a pair of poses, half as fast as allowed, and stay; return the last info."""
    hands = Hands.__new__(Hands)
    hands.env, hands.closure = env, {RIGHT: right.closure, LEFT: left.closure}
    for _ in range(steps):
        commands = {t.side: hands._toward(t.side, t) for t in (right, left)}
        *_, info = env.step(env.encode(commands))
    return info
