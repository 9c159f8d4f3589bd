"""What counts as success, what does not, and the way there."""

import re
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pytest

from envs import scene
from envs.panda_env import PicoPandaEnv
from envs.tasks import TASKS
from envs.tasks.things import FreeObject
from kinematics import EndEffectorTarget, Side

RIGHT = Side.RIGHT
DOWN = np.array([0.0, 1.0, 0.0, 0.0])
Make = Callable[..., PicoPandaEnv]


def _toward(env: PicoPandaEnv, target: EndEffectorTarget, speed: float = 0.4) -> EndEffectorTarget:
    """Return a command on the way to ``target``: ``speed`` [m/s] and 1.5 rad/s at most."""
    now, period = env.commanded(target.side), 1.0 / env.control_hz
    way, turn, quat = target.position - now.position, np.zeros(3), now.quat_wxyz.copy()
    mujoco.mju_subQuat(turn, target.quat_wxyz, now.quat_wxyz)
    share = min(1.0, speed * period / max(np.linalg.norm(way), 1e-9))
    part = min(1.0, 1.5 * period / max(np.linalg.norm(turn), 1e-9))
    mujoco.mju_quatIntegrate(quat, turn, part)
    quat /= np.linalg.norm(quat)
    return EndEffectorTarget(target.side, now.position + share * way, quat, target.closure)


def _first_of_each(env: PicoPandaEnv) -> dict[Side, EndEffectorTarget]:
    """Return where each hand goes: to the first waypoint of its own, or nowhere without one."""
    targets = {side: env.commanded(side) for side in env.sides}
    for waypoint in reversed(env.guide()):
        targets[waypoint.target.side] = waypoint.target
    return targets


def _follow_guide(env: PicoPandaEnv, seed: int) -> tuple[bool, int]:
    """Do what the guide says until the end; return success and the number of steps."""
    env.reset(seed=seed)
    for step in range(1, 4000):
        commands = {side: _toward(env, goal) for side, goal in _first_of_each(env).items()}
        *_, terminated, truncated, info = env.step(env.encode(commands))
        if terminated or truncated:
            return info["success"], step
    raise AssertionError("neither terminated nor truncated")


SEEDS = {"reach": range(1000, 1010), "pick": range(1000, 1010)}
"""Where the guide is tried; other tasks, with more seeds in files of their own, at one."""
WAYS = [(task, seed) for task in TASKS for seed in SEEDS.get(task, [1007])]


@pytest.mark.parametrize(("task", "seed"), WAYS)
def test_the_guide_leads_to_success(make: Make, task: str, seed: int) -> None:
    env = make(task=task)
    success, steps = _follow_guide(env, seed)
    assert success
    assert env.guide() == [], "nothing remains to be done"
    most = 1000 if task == "sort" else 500  # four things to carry instead of one
    assert steps < most, "10 s; measured 1 to 8, and 14 of sorting"


@pytest.mark.parametrize(("control", "control_hz"), [("ee_pose", 20), ("joint", 100)])
@pytest.mark.parametrize("seed", range(1010, 1015))
def test_the_guide_leads_to_success_in_every_mode(
    make: Make, control: str, control_hz: int, seed: int
) -> None:
    assert _follow_guide(make(control=control, control_hz=control_hz), seed)[0]


@pytest.mark.parametrize("task", TASKS)
def test_guides_name_an_arm_and_poses_in_reach(make: Make, task: str) -> None:
    """Each pose in the workspace of its own arm; every arm has something to do."""
    env = make(task=task)
    for seed in range(10):
        env.reset(seed=seed)
        waypoints = env.guide()
        assert {waypoint.target.side for waypoint in waypoints} == set(env.sides)
        for waypoint in waypoints:
            p = waypoint.target.position
            # A turned base: there and back rounds.
            inside = env.workspace(waypoint.target.side).clamp(p)
            np.testing.assert_allclose(inside, p, rtol=0.0, atol=1e-12)


def _roots(env: PicoPandaEnv) -> list[int]:
    """Return the bodies of the task that lie, stand or float by themselves."""
    model = env.model
    return [
        body
        for body in range(1, model.nbody)
        if model.body(body).name.startswith("task/") and model.body_parentid[body] == 0
    ]


@pytest.mark.parametrize("task", TASKS)
def test_everything_begins_where_the_arm_can_reach(make: Make, task: str) -> None:
    """One arm: in the area in front of it, but for bins that only receive. All: no farther off."""
    env = make(task=task)
    roots = _roots(env)
    bases = [env.workspace(side).T_world_base.translation for side in env.sides]
    assert roots
    for seed in range(200):
        env.reset(seed=seed)
        for body in roots:
            x, y, _ = env.data.xpos[body]
            assert 0.35 <= min(np.hypot(x - base[0], y - base[1]) for base in bases) <= 0.70
            receives = task == "sort" and env.model.body_mocapid[body] >= 0
            if len(bases) == 1 and not receives:
                assert 0.35 <= x <= 0.65
                assert -0.28 <= y <= 0.28
        assert not env.task.condition(env.data)
        assert not env.task.success(env.data)
        assert env.task.shaped_reward(env.data) < 0.9


@pytest.mark.parametrize("task", TASKS)
def test_everything_begins_on_the_table(make: Make, task: str) -> None:
    """And stays there: what is free lies still from the first step. Only a marker may float."""
    env = make(task=task)
    roots = _roots(env)
    free = [body for body in roots if env.model.body_mocapid[body] < 0]
    for seed in range(20):
        env.reset(seed=seed)
        for body in free:
            thing = FreeObject(env.model, env.model.body(body).name)
            assert thing.lowest(env.data) == pytest.approx(0.0, abs=1e-6)
        for body in set(roots) - set(free):
            z = env.data.xpos[body, 2]
            assert 0.05 <= z <= 0.45 if task == "reach" else z == 0.0
        before = env.data.xpos[roots].copy()
        for _ in range(120):
            mujoco.mj_step(env.model, env.data)
        assert np.abs(env.data.xpos[roots] - before).max() < 1e-3


def test_the_readme_lists_every_task() -> None:
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\d) \|", text, re.MULTILINE)
    assert {name: int(arms) for name, arms in rows} == {n: t.n_arms for n, t in TASKS.items()}


# --- pick: success and what only looks like it ---


class Stage:
    """Put the cube and the hand where a test wants them, and let physics judge."""

    def __init__(self, make: Make) -> None:
        """Make a pick in which success does not end the episode."""
        self.env = make(task="pick", terminate_on_success=False)
        self.env.reset(seed=0)
        self.task = self.env.task
        self.cube = FreeObject(self.env.model, "task/cube")

    def place(self, *position: float, quat: tuple = (1.0, 0.0, 0.0, 0.0)) -> None:
        """Put the cube at rest there."""
        joint = self.env.data.joint("task/cube_joint")
        joint.qpos[:3], joint.qpos[3:] = position, quat
        joint.qvel[:] = 0.0
        mujoco.mj_forward(self.env.model, self.env.data)

    def hold(self, steps: int, closure: float | None = None) -> list[bool]:
        """Stand still for some steps and return success after each."""
        now = self.env.commanded(RIGHT)
        closure = now.closure if closure is None else closure
        command = EndEffectorTarget(RIGHT, now.position, now.quat_wxyz, closure)
        return [
            self.env.step(self.env.encode({RIGHT: command}))[4]["success"] for _ in range(steps)
        ]

    def go(self, *position: float, closure: float) -> list[bool]:
        """Move the tool there, pointing down; return success after each step."""
        target, told = EndEffectorTarget(RIGHT, np.array(position), DOWN, closure), []
        for _ in range(400):
            command = _toward(self.env, target)
            told.append(self.env.step(self.env.encode({RIGHT: command}))[4]["success"])
            if np.linalg.norm(self.env.measured(RIGHT).position - position) < 1e-3:
                return told
        raise AssertionError("never arrived")

    def touching(self) -> set[str]:
        """Return the names of the geoms that touch the cube."""
        return {self.env.model.geom(index).name for index in self.cube.touching(self.env.data)}


PADS = {"right/hand/left_pad", "right/hand/right_pad"}


def test_a_real_grasp_is_success(make: Make) -> None:
    stage = Stage(make)
    stage.place(0.5, 0.0, 0.02)
    stage.go(0.5, 0.0, 0.1, closure=0.0)
    stage.go(0.5, 0.0, 0.02, closure=0.0)
    stage.hold(30, closure=1.0)
    assert not any(stage.go(0.5, 0.0, 0.10, closure=1.0)), "8 cm are not 10"
    assert stage.touching() == PADS
    assert not any(stage.hold(25))
    told = stage.go(0.5, 0.0, 0.16, closure=1.0) + stage.hold(25)
    assert told[-1]
    first = told.index(True)
    assert all(told[first:])
    assert first >= 10, "2 cm more, and 0.2 s of holding"


def test_setting_it_down_ends_success(make: Make) -> None:
    stage = Stage(make)
    stage.place(0.5, 0.0, 0.02)
    stage.go(0.5, 0.0, 0.02, closure=0.0)
    stage.hold(30, closure=1.0)
    stage.go(0.5, 0.0, 0.18, closure=1.0)
    assert stage.hold(15)[-1]
    told = stage.go(0.5, 0.0, 0.02, closure=1.0)
    assert not told[-1]
    stage.go(0.5, 0.0, 0.18, closure=1.0)
    stage.hold(15)
    told = stage.hold(60, closure=0.0)
    assert not told[-1], "dropped"


def test_a_cube_thrown_up_is_no_success(make: Make) -> None:
    """Half a second above 10 cm, between the open fingers' reach but untouched."""
    stage = Stage(make)
    stage.place(0.5, 0.2, 0.15)
    stage.env.data.joint("task/cube_joint").qvel[2] = 3.0
    told = []
    for _ in range(25):
        told += stage.hold(1)
        assert stage.cube.lowest(stage.env.data) > 0.10
    assert not any(told)


def test_a_cube_on_one_pad_is_no_success(make: Make) -> None:
    """High up and pressed onto one pad from inside, step after step."""
    stage = Stage(make)
    data = stage.env.data
    for _ in range(15):
        pad = data.geom("right/hand/left_pad").xpos
        inward = data.site("right/hand/ee").xpos - pad
        inward[2] = 0.0
        stage.place(*(pad + 0.0238 * inward / np.linalg.norm(inward)))  # 4 + 20 mm would touch
        assert stage.touching() == {"right/hand/left_pad"}
        assert not stage.task.condition(data)
        assert not any(stage.hold(1))


def test_a_cube_on_a_shelf_between_the_pads_is_no_success(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """High enough and gripped, but still resting on something."""
    compose = scene.assemble

    def with_shelf(*arguments: object) -> mujoco.MjSpec:
        spec = compose(*arguments)
        spec.worldbody.add_geom(
            name="shelf", type=mujoco.mjtGeom.mjGEOM_BOX, size=(0.02, 0.02, 0.1), pos=(0.5, 0, 0.1)
        )
        return spec

    monkeypatch.setattr(scene, "assemble", with_shelf)
    stage = Stage(make)
    stage.place(0.5, 0.0, 0.22)
    stage.go(0.5, 0.0, 0.35, closure=0.0)
    stage.go(0.5, 0.0, 0.22, closure=0.0)
    told = stage.hold(60, closure=1.0)
    assert stage.touching() == PADS | {"shelf"}
    assert stage.cube.lowest(stage.env.data) > 0.10
    assert not any(told)
    told = stage.go(0.5, 0.0, 0.26, closure=1.0) + stage.hold(20)
    assert told[-1], "lifted off it, it counts"


def test_a_cube_gripped_on_the_table_is_no_success(make: Make) -> None:
    stage = Stage(make)
    stage.place(0.5, 0.0, 0.02)
    stage.go(0.5, 0.0, 0.02, closure=0.0)
    assert not any(stage.hold(60, closure=1.0))
    assert stage.touching() >= PADS


def test_height_is_of_the_lowest_corner(make: Make) -> None:
    stage = Stage(make)
    stage.place(0.5, 0.2, 0.12)
    assert stage.cube.lowest(stage.env.data) == pytest.approx(0.10, abs=1e-12)
    stage.place(0.5, 0.2, 0.12, quat=(np.cos(np.pi / 8), np.sin(np.pi / 8), 0.0, 0.0))
    expected = 0.12 - 0.02 * np.sqrt(2.0)  # standing on an edge
    assert stage.cube.lowest(stage.env.data) == pytest.approx(expected, abs=1e-12)


def test_the_grip_does_not_slip(make: Make) -> None:
    """Success does not see a weak gripper: less than 1 mm in a lift at 0.4 m/s and 3 s of hold."""
    stage = Stage(make)
    stage.place(0.5, 0.0, 0.02)
    stage.go(0.5, 0.0, 0.02, closure=0.0)
    stage.hold(30, closure=1.0)

    def in_hand() -> np.ndarray:
        position, _ = stage.env.arms[RIGHT].measure(stage.env.data)
        return stage.env.data.body("task/cube").xpos - position

    before = in_hand()
    stage.go(0.5, 0.0, 0.30, closure=1.0)
    stage.hold(150)
    assert np.linalg.norm(in_hand() - before) < 1e-3


# --- reach ---


def test_reach_is_within_20_mm(make: Make) -> None:
    env = make(task="reach", terminate_on_success=False)
    env.reset(seed=0)
    tool = env.measured(RIGHT).position
    for distance, met in ((0.0, True), (0.0199, True), (0.0201, False), (0.1, False)):
        env.data.mocap_pos[0] = np.add(tool, [0.0, distance, 0.0])
        assert env.task.condition(env.data) is met


@pytest.mark.parametrize("task", TASKS)
def test_nothing_touches_after_reset_but_things_and_table(make: Make, task: str) -> None:
    env = make(task=task)
    for seed in range(20):
        env.reset(seed=seed)
        for pair in env.data.contact.geom.tolist():
            one, two = sorted(env.model.geom(index).name for index in pair)
            assert (one, two.partition("/")[0]) == ("scene/table_collision", "task"), (one, two)
