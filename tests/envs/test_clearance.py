"""Minimum distances: links slow down, stop and slide, whoever they belong to."""

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations
from typing import Any

import gymnasium as gym
import mujoco
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from envs.arm import Clamp
from envs.links import ACROSS, FINGERS, OWN, TABLE, Links, Margin
from envs.panda_env import PicoPandaEnv
from envs.scene import make_mounts
from kinematics import EndEffectorTarget, Side
from kinematics.frames import Array, quat_wxyz, rotation

RIGHT, LEFT = Side.RIGHT, Side.LEFT
SIGN = {RIGHT: 1.0, LEFT: -1.0}
DOWN = np.array([0.0, 1.0, 0.0, 0.0])
FAR_LEFT = np.array([0.0, 0.5, 0.0])
Make = Callable[..., PicoPandaEnv]
TOLERANCE = {50: 0.001, 20: 0.003}
"""m by which a commanded posture may miss a margin, by control rate: points of contact are those
of the step's beginning."""


@pytest.fixture
def make() -> Iterator[Make]:
    """Return a maker of environments that run on; they are closed at the end."""
    made = list[PicoPandaEnv]()

    def build(env_id: str = "PicoDualPanda-v0", **options: Any) -> PicoPandaEnv:
        options = {"terminate_on_success": False, "time_limit_s": 100.0} | options
        env = gym.make(env_id, **options).unwrapped
        assert isinstance(env, PicoPandaEnv)
        made.append(env)
        env.reset(seed=0)
        return env

    yield build
    for env in made:
        env.close()


class Ruler:
    """Measure the commanded postures of an environment, apart from its own limit."""

    def __init__(self, env: PicoPandaEnv, base_pose: Any = None) -> None:
        self.env = env
        self.links = Links(make_mounts(len(env.sides), base_pose=base_pose), env.model)

    def room(self, *margins: Margin) -> float:
        """Return the smallest distance less its margin [m], of pairs with these margins."""
        env, qpos = self.env, self.env.data.qpos.copy()
        for arm in env.arms.values():
            qpos[arm.qpos_adr] = arm.ik.q
        self.links.place(qpos)
        self.links.bounds()
        return min(
            self.links.distance(pair.a, pair.b, 0.3)[0] - pair.margin.least
            for pair in self.links.pairs
            if pair.margin in margins
        )


def go(env: PicoPandaEnv, goals: Mapping[Side, tuple[Array, Array]]) -> None:
    """Take one step toward goals, positions (3,) and wxyz (4,)."""
    env.step(env.encode({s: EndEffectorTarget(s, *goal, 0.0) for s, goal in goals.items()}))


def tools(env: PicoPandaEnv) -> dict[Side, tuple[Array, Array]]:
    """Return where the commanded postures hold the tools."""
    return {side: arm.ik.tool() for side, arm in env.arms.items()}


# --- two arms ---


@pytest.mark.parametrize("control_hz", TOLERANCE)
def test_arms_driven_into_each_other_stop_and_slide(make: Make, control_hz: int) -> None:
    """Both push on by 20 mm and move 0.15 m forward meanwhile, which neither hinders."""
    env = make(control_hz=control_hz)
    ruler, start = Ruler(env), tools(env)
    rooms, postures, seen = list[float](), list[Array](), Clamp.NONE
    for k in range(int(1.6 * control_hz)):
        forward = 0.15 * min(max(k / control_hz - 0.4, 0.0), 1.0)
        y = {side: p[1] + SIGN[side] * 0.02 for side, (p, _) in tools(env).items()}
        go(env, {s: (p * [1, 0, 1] + [forward, y[s], 0.0], DOWN) for s, (p, _) in start.items()})
        rooms.append(ruler.room(ACROSS, FINGERS))
        postures.append(np.concatenate([arm.ik.q for arm in env.arms.values()]))
        seen |= env.arms[RIGHT].clamps & env.arms[LEFT].clamps
    assert min(rooms) > -TOLERANCE[control_hz]
    assert rooms[-1] < 0.002, "they do not stay away either"
    assert seen & Clamp.CLEARANCE
    for side, (p, _) in tools(env).items():
        assert p[0] - start[side][0][0] == pytest.approx(0.15, abs=0.01)
        assert abs(p[2] - start[side][0][2]) < 0.002, "nor does it evade"
    # No chatter while they slide at an even 0.15 m/s.
    speeds = np.diff(postures, axis=0) * control_hz
    jolts = np.abs(np.diff(speeds, axis=0)).max(axis=1) * control_hz
    assert jolts[int(0.6 * control_hz) : int(1.3 * control_hz)].max() < 2.0  # rad/s2
    # The servos follow: what is measured is as far apart, within what they trail by.
    assert env.clearances()[RIGHT] > ACROSS.least - 0.003
    # The mirror image, but for what is not symmetric in the arm itself.
    right, left = (tools(env)[side][0] for side in (RIGHT, LEFT))
    np.testing.assert_allclose(right * [1.0, -1.0, 1.0], left, atol=1e-3)


def test_the_way_back_counts_at_once(make: Make) -> None:
    """Blocked for a second, the accepted target is no more than the leash ahead of the tool."""
    env = make()
    start = tools(env)
    for _ in range(50):
        go(env, {s: (p + SIGN[s] * FAR_LEFT, DOWN) for s, (p, _) in start.items()})
    for side, (p, _) in tools(env).items():
        assert np.linalg.norm(env.commanded(side).position - p) < 0.006
    before = tools(env)
    action = np.zeros(14, np.float32)
    action[[1, 8]] = -0.5, 0.5
    for _ in range(2):
        env.step(action)
    for side, (p, _) in tools(env).items():
        assert SIGN[side] * (p[1] - before[side][0][1]) < -0.010, "20 mm asked for, leash 5 mm"


def test_one_that_stands_is_not_pushed(make: Make) -> None:
    env = make()
    start, ruler = tools(env), Ruler(env)
    posture = env.arms[LEFT].ik.q
    for _ in range(60):
        go(env, {RIGHT: (start[RIGHT][0] + FAR_LEFT, DOWN), LEFT: start[LEFT]})
    assert ruler.room(ACROSS, FINGERS) > -TOLERANCE[50]
    assert tools(env)[RIGHT][0][1] - start[RIGHT][0][1] > 0.1
    np.testing.assert_allclose(env.arms[LEFT].ik.q, posture, atol=1e-6)  # rad; float32 actions


CLOSE = {"right": (0.0, -0.2, 0.0, 0.28), "left": (0.0, 0.2, 0.0, -0.28)}
"""The hands stand 15 mm apart at home."""


@pytest.mark.parametrize(
    ("move", "free"),
    [
        ((0.0, -1.0, 0.0), True),
        ((1.0, 0.0, 0.0), True),
        ((0.0, 0.0, 1.0), True),
        ((0.0, 1.0, 0.0), False),
    ],
    ids=["away", "along", "up", "nearer"],
)
def test_too_near_at_rest_only_nearer_is_refused(
    make: Make, move: tuple[float, float, float], free: bool
) -> None:
    env = make(base_pose=CLOSE)
    ruler = Ruler(env, CLOSE)
    assert ruler.room(ACROSS) == pytest.approx(-0.0052, abs=5e-4)
    zero, rest = np.zeros(14, np.float32), [arm.ik.q for arm in env.arms.values()]
    for _ in range(10):
        env.step(zero)
    for arm, posture in zip(env.arms.values(), rest, strict=True):
        np.testing.assert_allclose(arm.ik.q, posture, atol=1e-9)  # rad; nothing pushes
    start = tools(env)
    for k in range(25):
        share = (k + 1) / 25
        offsets = {s: np.array(move) * [1.0, SIGN[s], 1.0] * 0.1 * share for s in start}
        go(env, {s: (p + offsets[s], DOWN) for s, (p, _) in start.items()})
    for side, (p, _) in tools(env).items():
        way = (p - start[side][0]) @ (np.array(move) * [1.0, SIGN[side], 1.0])
        assert way == pytest.approx(0.1 if free else 0.0, abs=0.004)  # hands turn a little
    assert ruler.room(ACROSS) > -0.0057 - TOLERANCE[50]


# --- one arm ---


@pytest.fixture
def one(make: Make) -> PicoPandaEnv:
    """Return an environment with one arm."""
    return make("PicoPanda-v0", task="reach")


def test_a_lying_hand_driven_down_slides_over_the_table(one: PicoPandaEnv) -> None:
    """The tool's centre may go to 10 mm, but the hand lies and is 63 mm thick, or 206 mm."""
    for turn in (0.0, np.pi / 2):
        one.reset(seed=0)
        ruler = Ruler(one)
        lying = quat_wxyz(
            Rotation.from_euler("y", -np.pi / 2) * rotation(DOWN) * Rotation.from_euler("z", turn)
        )
        for _ in range(60):
            go(one, {RIGHT: (np.array([0.35, 0.0, 0.3]), lying)})
        rooms, way = list[float](), list[float]()
        for k in range(120):
            go(one, {RIGHT: (np.array([0.35 + 0.001 * k, 0.0, 0.011]), lying)})
            rooms.append(ruler.room(TABLE, OWN))
            way.append(tools(one)[RIGHT][0][0])
        assert min(rooms) > -TOLERANCE[50]
        assert rooms[-1] < 0.001
        assert one.arms[RIGHT].clamps & Clamp.CLEARANCE
        assert way[-1] - way[-31] == pytest.approx(0.03, abs=0.002), "it goes on"


def test_a_hand_does_not_fold_into_its_own_forearm(one: PicoPandaEnv) -> None:
    ruler, start = Ruler(one), tools(one)[RIGHT]
    rooms = list[float]()
    for k in range(100):
        turn = Rotation.from_euler("y", min(0.03 * k, 2.4))
        go(one, {RIGHT: (start[0], quat_wxyz(turn * rotation(DOWN)))})
        rooms.append(ruler.room(OWN))
    assert -TOLERANCE[50] < min(rooms) < 0.002
    assert one.arms[RIGHT].clamps & Clamp.CLEARANCE


def test_far_from_everything_it_is_as_if_there_were_no_limit(make: Make) -> None:
    """Bit for bit; and looking at every step changes nothing either."""
    free, limited, watchful = (make("PicoPanda-v0", task="reach") for _ in range(3))
    free._limit = None  # pyright: ignore[reportPrivateUsage]
    rng = np.random.default_rng(0)
    for k in range(60):
        action = np.append(rng.uniform(-0.3, 0.3, 6), 0.0).astype(np.float32)
        watchful._limit._slack = 0.0  # pyright: ignore[reportPrivateUsage, reportOptionalMemberAccess]
        for env in (free, limited, watchful):
            env.step(action)
        np.testing.assert_array_equal(free.ctrl, limited.ctrl, err_msg=f"step {k}")
        np.testing.assert_array_equal(free.ctrl, watchful.ctrl, err_msg=f"step {k}")


# --- what it depends on ---


def test_it_depends_on_state_and_memory_only_and_not_on_the_order_of_arms(make: Make) -> None:
    first, second = make(), make()
    second._codec._parts.reverse()  # pyright: ignore[reportPrivateUsage]
    rng = np.random.default_rng(1)
    action = np.zeros(14, np.float32)
    for k in range(80):
        if k % 10 == 0:
            action = rng.uniform(-0.5, 0.5, 14).astype(np.float32)
            action[[1, 8]] = 0.8, -0.8  # toward each other
        if k == 40:
            second.restore(first.integration_state(), first.controller_memory())
        first.step(action)
        second.step(action)
        np.testing.assert_array_equal(first.ctrl, second.ctrl, err_msg=f"step {k}")
    assert first.arms[RIGHT].clamps & Clamp.CLEARANCE


def test_the_joint_mode_has_the_signal_and_no_limit(make: Make) -> None:
    env = make(control="joint", base_pose=CLOSE)
    assert env._limit is None  # pyright: ignore[reportPrivateUsage]
    assert env.clearances()[LEFT] == pytest.approx(0.0148, abs=5e-4)


# --- the signal ---


def _touching(env: PicoPandaEnv) -> dict[str, list[int]]:
    """Return the geoms of each arm and of the table that may touch, by prefix."""
    model = env.model
    return {
        prefix: [
            geom
            for geom in range(model.ngeom)
            if model.geom_contype[geom] and model.geom(geom).name.startswith(prefix)
        ]
        for prefix in ("right/", "left/", "scene/")
    }


def test_the_signal_is_the_smallest_of_all_distances(make: Make) -> None:
    """Against every pair in the scene itself; no link is farther from itself than 60 mm allows."""
    env, rng, segment = make(), np.random.default_rng(2), np.zeros(6)
    model, data, geoms = env.model, env.data, _touching(env)

    def finger(geom: int) -> bool:
        return "finger" in model.body(model.geom_bodyid[geom]).name

    def link(geom: int) -> int:  # 0 .. 7, the hand is part of 7
        name = model.body(model.geom_bodyid[geom]).name.split("/")[1]
        return 7 if name == "hand" else int(name.removeprefix("link"))

    for _ in range(25):
        for arm in env.arms.values():
            spread = rng.uniform(-0.8, 0.8, 7)
            posture = np.clip(np.array(arm.arm.home) + spread, arm.ik.lower, arm.ik.upper)
            data.qpos[arm.qpos_adr] = posture
            data.qpos[arm.finger_adr] = rng.uniform(0.0, 0.04)
        mujoco.mj_kinematics(model, data)
        found = {RIGHT: np.inf, LEFT: np.inf}
        for side in found:
            own, other = geoms[side.prefix], geoms[side.other.prefix]
            rigid = [geom for geom in own if not finger(geom)]
            pairs = [(a, b) for a in own for b in other if not (finger(a) and finger(b))]
            pairs += [(a, b) for a in rigid for b in geoms["scene/"] if link(a) > 1]
            pairs += [
                (a, b)
                for a, b in combinations(rigid, 2)
                if abs(link(a) - link(b)) > 1 and {link(a), link(b)} != {5, 7}
            ]
            # link5 and link7 are excluded, but for the hand, another body.
            pairs += [
                (a, b)
                for a in rigid
                for b in rigid
                if link(a) == 5 and model.geom(b).name.endswith("hand_collision")
            ]
            found[side] = min(
                mujoco.mj_geomDistance(model, data, *pair, 1.0, segment) for pair in pairs
            )
        measured = env.clearances()
        for side in found:
            expected = min(found[side], 0.06)  # the Panda's elbow alone is built at 70 mm
            assert min(measured[side], 0.06) == pytest.approx(expected, abs=1e-6)


def test_neighbours_and_fingers_have_no_distance_from_each_other(make: Make) -> None:
    links = Ruler(make()).links
    name = [links.model.geom(geom).name for geom in range(links.model.ngeom)]
    for pair in links.pairs:
        a, b = name[pair.a], name[pair.b]
        assert not ("finger" in a and "finger" in b)
        if "scene/" in b or pair.margin is OWN:
            assert "finger" not in a + b
        if pair.margin is OWN:
            assert a.rpartition("/")[0] != b.rpartition("/")[0]
            assert {a.rpartition("/")[0][-5:], b.rpartition("/")[0][-5:]} != {"link4", "link5"}
    one = {
        side: {
            (name[pair.a].split("/", 1)[1], name[pair.b].split("/", 1)[1])
            for pair in links.pairs
            if pair.sides == (side,)
        }
        for side in Side
    }
    assert one[RIGHT] == one[LEFT], "one kind of arm"
    sides = {pair.margin: len(pair.sides) for pair in links.pairs}
    assert sides == {ACROSS: 2, FINGERS: 2, TABLE: 1, OWN: 1}
