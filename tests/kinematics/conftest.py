"""Panda models without geoms, in several surroundings, and the solver on them."""

from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import numpy.typing as npt
import pytest

from kinematics.frames import Array
from kinematics.ik import ArmIK, IKConfig

MODELS = Path(__file__).parents[2] / "models"
DT = 1.0 / 200.0
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


class Drive:
    """What a solver did on a path, tick by tick."""

    def __init__(self, ik: ArmIK, positions: Array, quats: Array, dt: float = DT) -> None:
        """Follow ``positions`` (N, 3) [m] and ``quats`` (N, 4) or (4,), one a tick of ``dt``."""
        q, errors, status = [ik.q], [], []
        for position, quat in zip(
            positions, np.broadcast_to(quats, (len(positions), 4)), strict=True
        ):
            ik.step(position, quat, dt)
            tick = ik.report()
            q.append(ik.q)
            errors.append((tick.position_error, tick.rotation_error))
            status.append(tick.status)
        self.q = np.array(q)
        self.velocity = np.diff(self.q, axis=0) / dt
        self.acceleration = np.diff(self.velocity, axis=0) / dt
        self.position_error, self.rotation_error = np.array(errors).T
        self.status = status

    def rms_acceleration(self, since: int = 0) -> float:
        """Return the joints' acceleration [rad/s2], root mean square over joints and ticks."""
        return float(np.sqrt((self.acceleration[since:] ** 2).mean()))

    def reversals(self, since: int = 0) -> float:
        """Return the share of ticks after which a joint's large acceleration changes its sign.

        Large is 10 rad/s2: 0.05 rad/s in a tick. A joint that chatters does it every tick.
        """
        a = self.acceleration[since:]
        large = np.abs(a) > 10.0
        return float(((a[1:] * a[:-1] < 0.0) & large[1:] & large[:-1]).mean())


def settle(ik: ArmIK, position: npt.ArrayLike, quat: npt.ArrayLike) -> None:
    """Move to a pose within 2 s and stand there."""
    for _ in range(400):
        ik.step(np.asarray(position, float), np.asarray(quat, float), DT)
    ik.reset(ik.q)


@pytest.fixture(scope="session")
def build_model() -> Callable[..., mujoco.MjModel]:
    """Return the function that builds an arm with other things before it."""
    return build


@pytest.fixture(scope="session")
def solver() -> Callable[..., ArmIK]:
    """Return the function that makes a solver for a model."""
    return make_ik


@pytest.fixture(scope="session")
def drive() -> type[Drive]:
    """Return the class that follows a path and keeps what happened."""
    return Drive


@pytest.fixture(scope="session")
def go_to() -> Callable[..., None]:
    """Return the function that moves a solver to a pose."""
    return settle


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
