"""Models in which something else comes first: numbers of joints, dofs and actuators all differ."""

from collections.abc import Callable, Mapping
from typing import Any

import mujoco
import numpy as np
import pytest

from envs import scene
from envs.panda_env import PicoPandaEnv
from envs.tasks import TASKS
from kinematics import Side

MODES = ("ee_delta", "ee_pose", "joint")
CASES = [(task, "ee_delta") for task in TASKS] + [
    (task, mode) for task in ("pick", "lift_tray") for mode in MODES[1:]
]
Make = Callable[..., PicoPandaEnv]


def _things_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a free cube, a door with a servo and a marker before the arms."""
    attach = scene.attach_robot

    def first_things(spec: mujoco.MjSpec, side: Side, mount: scene.Mount) -> None:
        if spec.body("first_cube") is None:
            cube = spec.worldbody.add_body(name="first_cube", pos=(3.0, 0.0, 0.5), gravcomp=1.0)
            cube.add_freejoint(name="first_cube")
            cube.add_geom(size=(0.02, 0.02, 0.02), type=mujoco.mjtGeom.mjGEOM_BOX)
            door = spec.worldbody.add_body(name="first_door", pos=(-3.0, 0.0, 0.5))
            door.add_joint(name="first_door", axis=(0.0, 0.0, 1.0), damping=(1.0, 0.0, 0.0))
            door.add_geom(size=(0.3, 0.02, 0.3), type=mujoco.mjtGeom.mjGEOM_BOX)
            spec.worldbody.add_body(name="first_marker", mocap=True, pos=(0.0, 3.0, 0.0))
            spec.add_actuator(
                name="first_servo", target="first_door", trntype=mujoco.mjtTrn.mjTRN_JOINT
            )
        attach(spec, side, mount)

    monkeypatch.setattr(scene, "attach_robot", first_things)


def _left_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the left arm before the right one."""
    assemble = scene.assemble

    def reversed_arms(mounts: Mapping[Side, scene.Mount], *rest: Any) -> mujoco.MjSpec:
        return assemble(dict(reversed(mounts.items())), *rest)

    monkeypatch.setattr(scene, "assemble", reversed_arms)


def _same_episode(plain: PicoPandaEnv, other: PicoPandaEnv) -> None:
    """Compare 15 steps of two environments that differ in nothing but the order in the model."""
    rng = np.random.default_rng(3)
    one, two = plain.reset(seed=3)[0], other.reset(seed=3)[0]
    for step in range(16):
        for key, value in one.items():
            # Sums come in another order: 1e-9 at first, more in what is in contact.
            np.testing.assert_allclose(two[key], value, atol=2e-5, err_msg=f"{key}, step {step}")
        for side, arm in other.arms.items():
            expected = plain.arms[side]
            np.testing.assert_array_equal(arm.ik.lower, expected.ik.lower)
            np.testing.assert_array_equal(arm.ik.upper, expected.ik.upper)
        assert len(plain.guide()) == len(other.guide())
        action = rng.uniform(-1.0, 1.0, plain.action_space.shape).astype(np.float32)
        (one, *result), (two, *same) = plain.step(action), other.step(action)
        assert result == same
        np.testing.assert_allclose(_arm_ctrl(other), _arm_ctrl(plain), atol=1e-6)


def _arm_ctrl(env: PicoPandaEnv) -> np.ndarray:
    """Return ctrl by the actuators' names, for the arms and their tools."""
    names = [env.model.actuator(i).name for i in range(env.model.nu)]
    order = sorted((name, i) for i, name in enumerate(names) if "/" in name)
    return env.ctrl[:, [i for _, i in order]]


@pytest.mark.parametrize(("task", "control"), CASES)
def test_things_before_the_arms_change_nothing(
    make: Make, monkeypatch: pytest.MonkeyPatch, task: str, control: str
) -> None:
    plain = make(task=task, control=control, terminate_on_success=False)
    _things_first(monkeypatch)
    other = make(task=task, control=control, terminate_on_success=False)
    arm = other.model.joint("right/joint1")
    assert (arm.qposadr[0], arm.dofadr[0], arm.id) == (8, 7, 2), "three different numberings"
    assert other.model.actuator("right/joint1").id == 1
    _same_episode(plain, other)
    np.testing.assert_allclose(other.data.body("first_cube").xpos, [3.0, 0.0, 0.5], atol=1e-9)
    assert other.data.joint("first_door").qpos == 0.0


@pytest.mark.parametrize("control", MODES)
@pytest.mark.parametrize("task", [name for name, task in TASKS.items() if task.n_arms == 2])
def test_sides_go_by_their_names(
    make: Make, monkeypatch: pytest.MonkeyPatch, task: str, control: str
) -> None:
    """The right arm is the first in actions and observations, wherever the model has it."""
    plain = make(task=task, control=control, terminate_on_success=False)
    _left_first(monkeypatch)
    other = make(task=task, control=control, terminate_on_success=False)
    assert other.model.joint("left/joint1").id < other.model.joint("right/joint1").id
    assert other.action_names == plain.action_names
    _same_episode(plain, other)
