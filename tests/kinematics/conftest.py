"""Panda models without geoms, in several surroundings, and the solver on them."""

from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pytest

from kinematics.frames import Array
from kinematics.ik import ArmIK, IKConfig

MODELS = Path(__file__).parents[2] / "models"
SPEED = np.array([2.175, 2.175, 2.175, 2.175, 2.61, 2.61, 2.61])
HOME = np.array([0.0, -0.785398163, 0.0, -2.35619449, 0.0, 1.57079633, 0.785398163])


def _part(name: str) -> mujoco.MjSpec:
    spec = mujoco.MjSpec.from_string((MODELS / name / f"{name}.xml").read_text(encoding="utf-8"))
    doomed = [*spec.geoms, *spec.actuators, *spec.equalities, *spec.tendons, *spec.keys]
    doomed += [*spec.excludes, *spec.cameras]
    doomed += [joint for joint in spec.joints if joint.name.startswith("finger")]
    for element in doomed:
        spec.delete(element)
    return spec


def _world() -> mujoco.MjSpec:
    spec, arm = mujoco.MjSpec(), _part("panda")
    spec.option.timestep, spec.option.integrator = arm.option.timestep, arm.option.integrator
    spec.option.cone, spec.option.impratio = arm.option.cone, arm.option.impratio
    return spec


def _add_arm(
    spec: mujoco.MjSpec, prefix: str, pos: tuple = (0, 0, 0), quat: tuple = (1, 0, 0, 0)
) -> None:
    frame = spec.worldbody.add_frame(pos=pos, quat=quat)
    frame.attach_body(_part("panda").body("link0"), prefix, "")
    flange = spec.site(prefix + "flange")
    flange.attach_body(_part("franka_hand").body("hand"), prefix + "hand/", "")


def _add_cube(spec: mujoco.MjSpec) -> None:
    body = spec.worldbody.add_body(name="cube", pos=(0.5, 0.1, 0.2))
    body.add_freejoint(name="cube_joint")
    body.add_geom(size=(0.02, 0.02, 0.02), type=mujoco.mjtGeom.mjGEOM_BOX)


def _add_door(spec: mujoco.MjSpec) -> None:
    body = spec.worldbody.add_body(name="door", pos=(1, 1, 0))
    body.add_joint(name="door_hinge", axis=(0, 0, 1), range=(-0.1, 0.1))
    body.add_geom(size=(0.3, 0.02, 0.5), type=mujoco.mjtGeom.mjGEOM_BOX)


def build(*before: str, pos: tuple = (0, 0, 0), quat: tuple = (1, 0, 0, 0)) -> mujoco.MjModel:
    """Return a model of the arm (``arm/...``) with other things ``before`` it, in that order."""
    spec = _world()
    for thing in before:
        if thing == "cube":
            _add_cube(spec)
        elif thing == "door":
            _add_door(spec)
        else:
            _add_arm(spec, "other/", pos=(0, 0.8, 0))
    _add_arm(spec, "arm/", pos, quat)
    return spec.compile()


def make_ik(model: mujoco.MjModel, config: IKConfig | None = None) -> ArmIK:
    """Return a solver for the arm."""
    return ArmIK(
        model,
        joints=[f"arm/joint{i}" for i in range(1, 8)],
        site="arm/hand/ee",
        velocity_limits=SPEED,
        rest=HOME,
        config=config,
    )


@pytest.fixture(scope="session")
def build_model() -> Callable[..., mujoco.MjModel]:
    """Return the function that builds an arm with other things before it."""
    return build


@pytest.fixture(scope="session")
def solver() -> Callable[..., ArmIK]:
    """Return the function that makes a solver for a model."""
    return make_ik


@pytest.fixture(scope="session")
def bare() -> mujoco.MjModel:
    """Return the arm alone."""
    return build()


@pytest.fixture
def ik(bare: mujoco.MjModel) -> ArmIK:
    """Return a fresh solver at home."""
    return make_ik(bare)


@pytest.fixture(scope="session")
def home() -> Array:
    """Return the rest posture (7,) [rad]."""
    return HOME
