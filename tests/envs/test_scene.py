"""Composition: options that survive, one home, the same bytes, any path."""

import pickle
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pytest

from envs import scene
from envs.errors import EnvError, ModelError
from envs.panda_env import PicoPandaEnv
from envs.robots import MODELS, ArmSpec, GripperSpec, load_spec
from envs.scene import Mount, compose, compose_arm, load, model_sha256
from envs.tasks import TASKS
from kinematics import Side
from kinematics.frames import pose
from kinematics.names import names_of

PANDA = load_spec(ArmSpec, "panda")
FRANKA_HAND = load_spec(GripperSpec, "franka_hand")
ONE = {Side.RIGHT: Mount()}
TWO = {
    Side.RIGHT: Mount(T_world_base=pose((0.0, -0.3, 0.0), (0.9659258263, 0.0, 0.0, 0.2588190451))),
    Side.LEFT: Mount(T_world_base=pose((0.0, 0.3, 0.0), (0.9659258263, 0.0, 0.0, -0.2588190451))),
}


@pytest.mark.parametrize("objects", [(), ("cube",), ("target",), ("cube", "target")])
def test_options_survive(objects: tuple[str, ...]) -> None:
    """What attaching would drop, as compiled."""
    opt = compose(ONE, objects).opt
    assert opt.timestep == pytest.approx(1 / 600, abs=1e-15)
    assert opt.integrator == int(mujoco.mjtIntegrator.mjINT_IMPLICITFAST)
    assert opt.cone == int(mujoco.mjtCone.mjCONE_ELLIPTIC)
    assert opt.impratio == 20.0
    np.testing.assert_array_equal(opt.gravity, [0.0, 0.0, -9.81])


def test_a_part_with_other_options_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def other(path: Path) -> mujoco.MjSpec:
        spec = load(path)
        if path.name == "cube.xml":
            spec.option.timestep = 0.002
        return spec

    monkeypatch.setattr(scene, "load", other)
    with pytest.raises(ModelError, match="timestep"):
        compose(ONE, ("cube",))


def test_arms_are_weightless_and_servos_limited_on_the_joint() -> None:
    model = compose(ONE, ("cube",))
    for name in names_of(model, mujoco.mjtObj.mjOBJ_BODY):
        if name.startswith("right/") and model.body(name).mass[0] > 0 and name != "right/link0":
            assert model.body_gravcomp[model.body(name).id] == 1.0, name
    assert model.body_gravcomp[model.body("task/cube").id] == 0.0
    for name in PANDA.joints:
        joint, actuator = model.joint("right/" + name), model.actuator("right/" + name)
        assert model.jnt_actfrclimited[joint.id]
        assert not model.actuator_forcelimited[actuator.id], "else the wrist may cycle at rest"
        assert actuator.trnid[0] == joint.id


@pytest.mark.parametrize("mounts", [ONE, TWO])
def test_one_home_for_the_whole(mounts: dict) -> None:
    model = compose(mounts, ("cube",))
    assert names_of(model, mujoco.mjtObj.mjOBJ_KEY) == ["home"]
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    for side in mounts:
        for name, angle in zip(PANDA.joints, PANDA.home, strict=True):
            assert data.joint(side.prefix + name).qpos[0] == angle
            assert data.actuator(side.prefix + name).ctrl[0] == angle
        for name in FRANKA_HAND.joints:
            assert data.joint(f"{side.prefix}hand/{name}").qpos[0] == 0.04
        assert data.actuator(f"{side.prefix}hand/fingers").ctrl[0] == 0.04
    np.testing.assert_allclose(data.body("task/cube").xpos, [0.5, 0.0, 0.02], atol=1e-9)


def test_nothing_touches_at_home_but_the_cube_its_table() -> None:
    model = compose(TWO, ("cube",))
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    data.joint("task/cube_joint").qpos[:3] = (0.5, 0.0, 0.021)
    mujoco.mj_forward(model, data)
    assert data.ncon == 0


def test_only_the_named_arm_moves() -> None:
    """Actuators and joints by name, whatever their order: the left arm's ctrl moves the left."""
    model = compose(TWO, ("cube",))
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    for name in PANDA.joints:
        data.actuator("left/" + name).ctrl += 0.1
    before = data.qpos.copy()
    mujoco.mj_step(model, data, 300)
    moved = np.abs(data.qpos - before) > 1e-3
    left = [model.joint("left/" + name).qposadr[0] for name in PANDA.joints]
    assert sorted(np.flatnonzero(moved)) == sorted(left)


def test_the_kinematic_model_is_the_scenes_arm() -> None:
    """No geoms, no joints but the arm's; the same tool pose, also on a turned base."""
    whole = compose(TWO, ("cube",))
    data, rng = mujoco.MjData(whole), np.random.default_rng(0)
    for side, mount in TWO.items():
        arm = compose_arm(side, mount)
        assert (arm.ngeom, arm.nq, arm.nv, arm.nu) == (0, 7, 7, 0)
        own = mujoco.MjData(arm)
        site = f"{side.prefix}hand/{FRANKA_HAND.ee_site}"
        for _ in range(5):
            for name in PANDA.joints:
                low, high = whole.joint(side.prefix + name).range
                angle = rng.uniform(low, high)
                data.joint(side.prefix + name).qpos = angle
                own.joint(side.prefix + name).qpos = angle
            mujoco.mj_kinematics(whole, data)
            mujoco.mj_kinematics(arm, own)
            np.testing.assert_allclose(own.site(site).xpos, data.site(site).xpos, atol=1e-12)
            np.testing.assert_allclose(own.site(site).xmat, data.site(site).xmat, atol=1e-12)


# --- the same bytes ---

HASH = """
from envs.scene import Mount, compose, model_sha256
from kinematics import Side
print(model_sha256(compose({Side.RIGHT: Mount()}, ("cube",))))
"""


def test_two_builds_and_two_processes_give_the_same_model() -> None:
    one, two = (model_sha256(compose(ONE, ("cube",))) for _ in range(2))
    assert one == two
    assert one != model_sha256(compose(ONE, ("target",)))
    done = subprocess.run(
        [sys.executable, "-c", HASH], capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.strip() == one


def test_the_hash_sees_every_number() -> None:
    model = compose(ONE, ("cube",))
    before = model_sha256(model)
    model.body_mass[-1] = np.nextafter(model.body_mass[-1], 1.0)
    assert model_sha256(model) != before


# --- paths ---


def test_models_load_from_any_folder(tmp_path: Path) -> None:
    """Spaces and letters beyond ASCII, which a native file call on Windows would refuse."""
    folder = tmp_path / "user test é 目录"
    shutil.copytree(MODELS / "cube", folder / "cube")
    assert load(folder / "cube" / "cube.xml").compile().nbody == 2


def test_no_model_needs_another_file() -> None:
    """Neither meshes nor includes, so that text alone is a model."""
    for file in MODELS.rglob("*.xml"):
        text = file.read_text(encoding="utf-8")
        assert "<include" not in text and "file=" not in text, file
        load(file).compile()


def test_a_robot_with_meshes_in_any_folder(tmp_path: Path) -> None:
    """Meshes lie beside their file, whose place may have any letters; nothing else is asked."""
    folder = tmp_path / "user test é 目录" / "my panda"
    shutil.copytree(MODELS / "panda", folder)
    shutil.copytree(MODELS / "franka_hand", folder.parent / "franka_hand")
    corners = "v 0 0 0\nv .01 0 0\nv 0 .01 0\nv 0 0 .01\n"
    faces = "f 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
    (folder / "meshes").mkdir()
    (folder / "meshes" / "mark é 1.obj").write_text(corners + faces, encoding="utf-8")
    text = (folder / "panda.xml").read_text(encoding="utf-8")
    asset = '<compiler meshdir="meshes"/><asset><mesh name="mark" file="mark é 1.obj"/></asset>'
    geom = '<geom type="mesh" mesh="mark" contype="0" conaffinity="0" mass="0"/>'
    text = re.sub(r"(?=<worldbody>)", asset, text)
    text, count = re.subn(r'(<body name="link7"[^>]*>)', rf"\1{geom}", text)
    assert count == 1
    (folder / "panda.xml").write_text(text, encoding="utf-8")
    env = PicoPandaEnv(robot=str(folder / "robot.toml"))
    assert env.model.nmesh == 1
    env.reset(seed=0)
    env.step(env.action_space.sample())
    twin = pickle.loads(pickle.dumps(env))
    assert twin.model_sha256 == env.model_sha256


@pytest.mark.parametrize("task", TASKS)
def test_nothing_can_be_switched_on_that_pulls(task: str) -> None:
    """No welds or connections: grasps hold by friction, and fixtures move in reset alone."""
    model = PicoPandaEnv(task, TASKS[task].n_arms).model
    assert set(model.eq_type.tolist()) <= {int(mujoco.mjtEq.mjEQ_JOINT)}


def test_a_model_that_does_not_load_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken.xml"
    with pytest.raises(ModelError, match=r"cannot load model .*broken\.xml"):
        load(broken)
    broken.write_text("<mujoco><worldbody><geom/></worldbody></mujoco", encoding="utf-8")
    with pytest.raises(ModelError, match=r"cannot load model .*broken\.xml"):
        load(broken)
    assert issubclass(ModelError, EnvError)


def test_a_misspelt_actuator_stops_the_start(robot_file: Callable[..., str]) -> None:
    """With the name and the names there are, instead of the last actuator."""
    odd = robot_file("franka_hand", actuator="finger")
    with pytest.raises(ModelError, match=r"no actuator \['finger'\]; it has \['fingers'\]"):
        PicoPandaEnv(end_effector=odd)
