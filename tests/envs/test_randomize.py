"""What is drawn, within which bounds, and that the base model stays what it is."""

import colorsys
from collections.abc import Callable

import mujoco
import numpy as np
import pytest

from envs.errors import OptionError, StateError
from envs.panda_env import PicoPandaEnv
from envs.randomize import GROUPS, Ranges
from envs.scene import DISTRACTOR, model_sha256
from envs.tasks import TASKS
from envs.tasks.things import FreeObject
from kinematics import Side
from kinematics.edits import ModelEdits

Make = Callable[..., PicoPandaEnv]
R = Ranges()


def _hue(rgba: np.ndarray) -> tuple[float, float, float]:
    return colorsys.rgb_to_hsv(*rgba[:3].tolist())


def _apart(one: float, two: float) -> float:
    return abs((one - two + 0.5) % 1.0 - 0.5)


@pytest.mark.parametrize("task", TASKS)
def test_base_and_edits_are_the_model_and_nothing_drifts(make: Make, task: str) -> None:
    one, two = make(task=task, randomize=GROUPS), make(task=task, randomize=GROUPS)
    base = model_sha256(one.model)
    one.reset(seed=1)
    first = model_sha256(one.model)
    assert len({base, first, model_sha256(two.model)}) == 2, "nothing is shared"
    assert one.model_sha256 == base and model_sha256(one.model) == first
    two.edit(one.edits)
    assert model_sha256(two.model) == first
    for seed in range(2, 5):
        one.reset(seed=seed)
        assert model_sha256(one.model) not in (base, first)
    one.reset(seed=1)
    assert model_sha256(one.model) == first and one.edits == two.edits
    two.edit(ModelEdits())
    assert model_sha256(two.model) == base


def test_without_the_option_nothing_is_edited(make: Make) -> None:
    env = make()
    env.reset(seed=1)
    assert not env.edits and not env.noise_bounds
    assert model_sha256(env.model) == env.model_sha256
    assert not [i for i in range(env.model.ngeom) if env.model.geom(i).name.startswith(DISTRACTOR)]


def test_a_foreign_episode_s_edits_go_with_the_next_reset(make: Make) -> None:
    env, drawn = make(), make(randomize=("dynamics",))
    drawn.reset(seed=1)
    env.edit(drawn.edits)
    assert model_sha256(env.model) == model_sha256(drawn.model)
    env.reset(seed=1)
    assert model_sha256(env.model) == env.model_sha256
    two_arms = make(task="handover", randomize=("dynamics",))
    two_arms.reset(seed=3)
    with pytest.raises(StateError, match="another model"):
        env.edit(two_arms.edits)
    assert model_sha256(env.model) == env.model_sha256


@pytest.mark.parametrize("wrong", ["colours", ("visual", "colours"), ["Dynamics"]])
def test_unknown_names_are_told_the_known_ones(make: Make, wrong: object) -> None:
    with pytest.raises(OptionError, match=r"colours|Dynamics.*'visual', 'dynamics'"):
        make(randomize=wrong)


def test_groups_draw_the_same_alone_and_together(make: Make) -> None:
    found = []
    for groups in (("visual",), ("dynamics",), ("dynamics", "sizes", "visual")):
        env = make(randomize=groups)
        env.reset(seed=6)
        model = env.model
        found.append((model.cam_fovy.tolist(), model.actuator_gainprm.tolist()))
    assert found[2][0] == found[0][0]
    assert found[2][1] == found[1][1]
    assert found[0] != found[1]


@pytest.mark.parametrize("task", ["pick", "dual_peg"])
def test_visual_changes_no_physics(make: Make, task: str) -> None:
    plain, seen = make(task=task), make(task=task, randomize=("visual",))
    rng = np.random.default_rng(0)
    a, b = plain.reset(seed=2)[0], seen.reset(seed=2)[0]
    assert model_sha256(plain.model) != model_sha256(seen.model)
    for _ in range(60):
        assert plain.integration_state().tobytes() == seen.integration_state().tobytes()
        assert all(a[key].tobytes() == b[key].tobytes() for key in a)
        action = rng.uniform(-1, 1, plain.action_space.shape).astype(np.float32)
        a, b = plain.step(action)[0], seen.step(action)[0]


@pytest.mark.parametrize("task", ["pick", "sort", "lift_tray"])
def test_what_is_seen_keeps_the_task_s_meaning(make: Make, task: str) -> None:
    env = make(task=task, randomize=("visual",))
    model = env.model
    own = [i for i in range(model.nmat) if model.material(i).name.startswith("task/")]
    before = {i: _hue(model.mat_rgba[i]) for i in own}
    free = [i for i in range(model.ngeom) if model.geom(i).name.startswith(DISTRACTOR)]
    places, camera, counts = model.cam_pos.copy(), model.camera("front").id, []
    assert not model.geom_rgba[free, 3].any(), "hidden until laid out"
    for seed in range(30):
        env.reset(seed=seed)
        for i in own:
            hue = _hue(model.mat_rgba[i])
            assert _apart(hue[0], before[i][0]) <= R.object_hue + 1e-6
            assert hue[1] >= 0.84 * before[i][1]
        shown = [i for i in free if model.geom_rgba[i, 3]]
        counts.append(len(shown))
        for i in shown:
            x, y, z = model.geom_pos[i]
            size = model.geom_rbound[i]
            assert x - size > 0.80 or abs(y) - size > 0.50, "out of the tool's workspace"
            assert x + size < 0.95 and abs(y) + size < 0.70, "on the table"
            assert 0.0 < z <= size
            hues = [_hue(model.mat_rgba[j])[0] for j in own]
            away = [_apart(_hue(model.geom_rgba[i])[0], hue) for hue in hues]
            assert min(away) >= R.distractor_hue_gap - 1e-6
        between = [
            np.linalg.norm(model.geom_pos[i] - model.geom_pos[j]) - model.geom_rbound[[i, j]].sum()
            for i in shown
            for j in shown
            if i < j
        ]
        assert min(between, default=1.0) > 0.0
        assert (np.abs(model.cam_pos[camera] - places[camera]) <= R.camera_shift_m).all()
    assert min(counts) <= 1 and max(counts) == 6
    assert not model.geom_contype[free].any() and not model.geom_conaffinity[free].any()


@pytest.mark.parametrize("task", ["pick", "drawer", "handover"])
def test_how_it_moves_stays_consistent(make: Make, task: str) -> None:
    env = make(task=task, randomize=("dynamics",))
    model, base = env.model, make(task=task).model
    ik = [arm.ik._model for arm in env.arms.values()]
    untouched = [model_sha256(each) for each in ik]
    factors = []
    for seed in range(20):
        env.reset(seed=seed)
        moved = np.flatnonzero(model.body_mass != base.body_mass)
        assert all(model.body(i).name.startswith("task/") for i in moved) and len(moved)
        mass = model.body_mass[moved] / base.body_mass[moved]
        inertia = model.body_inertia[moved] / base.body_inertia[moved]
        np.testing.assert_allclose(inertia, np.repeat(mass[:, None], 3, 1), rtol=1e-12)
        own = mujoco.MjData(model)
        mujoco.mj_forward(model, own)
        for body in range(model.nbody):
            subtree = [i for i in range(model.nbody) if _within(model, i, body)]
            np.testing.assert_allclose(model.body_subtreemass[body], model.body_mass[subtree].sum())
        gain = model.actuator_gainprm[:, 0] / base.actuator_gainprm[:, 0]
        for column in (1, 2):
            ratio = model.actuator_biasprm[:, column] / base.actuator_biasprm[:, column]
            np.testing.assert_allclose(ratio, gain, rtol=1e-12)
        friction = model.geom_friction / base.geom_friction
        assert (friction[:, 1:] == 1.0).all(), "sliding alone"
        factors.append((mass.min(), mass.max(), gain.min(), gain.max(), *friction[:, 0]))
        assert [model_sha256(each) for each in ik] == untouched
    found = np.array(factors)
    for low, high, span in ((0, 1, R.mass), (2, 3, R.gain)):
        assert span[0] <= found[:, low].min() < found[:, high].max() <= span[1]
    changed = found[:, 4:][found[:, 4:] != 1.0]
    assert R.friction[0] <= changed.min() < 0.75 and 1.25 < changed.max() <= R.friction[1]


@pytest.mark.parametrize("task", [name for name, task in TASKS.items() if task.resizable])
def test_other_sizes_are_other_boxes_of_the_same_stuff(make: Make, task: str) -> None:
    env = make(task=task, randomize=("sizes",))
    model, base = env.model, make(task=task).model
    factors = []
    for seed in range(20):
        env.reset(seed=seed)
        for name in env.task.resizable:
            body = model.body(name).id
            own = np.flatnonzero(model.geom_bodyid == body)
            size = model.geom_size[own]
            assert (model.geom_type[own] == mujoco.mjtGeom.mjGEOM_BOX).all()
            factor = size / base.geom_size[own]
            np.testing.assert_allclose(factor, factor[0, 0], rtol=1e-12)
            factors.append(factor[0, 0])
            np.testing.assert_allclose(model.geom_rbound[own], np.linalg.norm(size, axis=1))
            np.testing.assert_allclose(model.geom_aabb[own, 3:], size)
            density = model.body_mass[body] / size.prod(axis=1).sum()
            old = base.body_mass[body] / base.geom_size[own].prod(axis=1).sum()
            assert density == pytest.approx(old)
            x, y, z = 2.0 * size[0]
            if len(own) == 1:
                squares = np.array([y * y + z * z, x * x + z * z, x * x + y * y])
                inertia = model.body_mass[body] / 12.0 * squares
                np.testing.assert_allclose(np.sort(model.body_inertia[body]), np.sort(inertia))
            lowest = FreeObject(model, name).lowest(env.data)
            assert lowest == pytest.approx(0.0, abs=1e-6), "it stands on the table"
        others = np.setdiff1d(
            np.arange(model.nbody), [model.body(n).id for n in env.task.resizable]
        )
        np.testing.assert_array_equal(model.body_mass[others], base.body_mass[others])
    assert R.size[0] <= min(factors) < 0.93 and 1.07 < max(factors) <= R.size[1]


def _within(model: mujoco.MjModel, body: int, root: int) -> bool:
    while body != root and body:
        body = int(model.body_parentid[body])
    return body == root


# --- noise ---


@pytest.mark.parametrize("task", ["pick", "dual_peg"])
def test_sensors_err_within_bounds_and_physics_do_not_know(make: Make, task: str) -> None:
    env, exact = (make(task=task, randomize=("dynamics",)) for _ in range(2))
    exact._observer.noise = None
    bounds, rng = env.noise_bounds, np.random.default_rng(1)
    assert {key.partition("_")[2] or key for key in bounds} >= {"joint_pos", "joint_vel", "eef_pos"}
    a, b = env.reset(seed=3)[0], exact.reset(seed=3)[0]
    errors = {key: [] for key in a}
    for _ in range(50):
        again = env.observe()
        assert all(again[key].tobytes() == a[key].tobytes() for key in a), "as often as asked"
        assert env.integration_state().tobytes() == exact.integration_state().tobytes()
        assert a in env.observation_space
        for key in a:
            errors[key].append(a[key].astype(float) - b[key])
        action = rng.uniform(-1, 1, env.action_space.shape).astype(np.float32)
        (a, *results), (b, *same) = env.step(action), exact.step(action)
        assert results == same
    for key, each in errors.items():
        error = np.array(each)
        assert np.abs(error).max() <= bounds.get(key, 0.0) + 1e-6, key
        if key in bounds:
            assert (error[1:] != error[:-1]).any(), "new in every step"
            measured = error.std(axis=0).max()
            assert 0.6 < measured / (bounds[key] / 3.0) < 1.4
    names = env.task.object_names
    turns = [name.rpartition("_")[2] in ("qw", "qx", "qy", "qz") for name in names]
    assert (np.array(errors["object"])[:, turns] == 0.0).all()


def test_noise_is_the_episode_s_and_the_step_s(make: Make) -> None:
    env = make(randomize=("dynamics",))
    env.reset(seed=1)
    action = env.encode({Side.RIGHT: env.commanded(Side.RIGHT)})
    rows = [(env.integration_state(), env.controller_memory(), env.observe())]
    for _ in range(3):
        obs = env.step(action)[0]
        rows.append((env.integration_state(), env.controller_memory(), obs))
    for state, memory, obs in reversed(rows):
        env.restore(state, memory)
        assert all(env.observe()[key].tobytes() == obs[key].tobytes() for key in obs)
    other = make(randomize=("dynamics",))
    other.reset(seed=2)
    other.restore(*rows[0][:2])
    assert (other.observe()["robot0_joint_pos"] != rows[0][2]["robot0_joint_pos"]).any()


# --- pictures ---


def test_pictures_show_the_edits(make: Make) -> None:
    env = make(randomize=("visual",), render_mode="rgb_array", width=160, height=120)
    before = env.render()
    pictures = []
    for seed in (1, 2, 1):
        env.reset(seed=seed)
        pictures.append(env.render())
        red, green, blue = pictures[-1].astype(int).reshape(-1, 3).T
        assert ((red > 2 * green) & (red > 2 * blue)).sum() > 10, "the red cube"
    assert (pictures[0] == pictures[2]).all()
    assert np.abs(pictures[0].astype(int) - pictures[1]).mean() > 10.0
    env.edit(ModelEdits())
    env.restore(make().integration_state())
    assert (env.render() == before).all()


def test_a_window_with_meshes_does_not_take_what_it_cannot_show(make: Make) -> None:
    with pytest.raises(OptionError, match="rgb_array"):
        make(randomize=("visual",), visuals="menagerie", render_mode="human")
