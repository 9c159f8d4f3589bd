"""What can be checked, a file or an environment, and all checks run over it."""

import copy
import warnings
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np

from ..errors import ModelError
from ..panda_env import PicoPandaEnv
from ..robots import MODELS, SPEC_FILE, ArmSpec, GripperSpec, load_spec, read_table
from ..scene import HAND, load
from . import motion, robot, still, written
from .findings import Finding, Severity


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """Hold a model and what is known about it."""

    name: str
    model: mujoco.MjModel
    written: mujoco.MjSpec | None = None
    """The file, where the model is one file's."""
    robots: tuple[tuple[str, ArmSpec | GripperSpec], ...] = ()
    """By the prefix of their names in the model."""
    composed: bool = False
    """Whether it is a whole environment: arms with their tools on."""
    remarks: tuple[str, ...] = ()
    """What MuJoCo said while it compiled."""


@dataclass(frozen=True, slots=True)
class Report:
    """Hold what was found in a subject, worst first."""

    subject: str
    findings: tuple[Finding, ...]
    left_out: tuple[str, ...]
    """Checks that could not be made, and why."""

    @property
    def worst(self) -> Severity:
        """Return the worst severity; NOTE for an empty report."""
        return max((found.severity for found in self.findings), default=Severity.NOTE)


def file_subject(path: Path) -> Subject:
    """Read an MJCF or URDF file, with the ``robot.toml`` beside it if that is about it.

    Raises ModelError for what does not load, saying where.
    """
    path = path.resolve()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        spec = _read(path)
        try:
            model = spec.compile()
        except ValueError as error:
            raise ModelError(f"cannot compile {path}: {error}") from error
    remarks = tuple(str(w.message) for w in caught)
    table = path.parent / SPEC_FILE
    robots: tuple[tuple[str, ArmSpec | GripperSpec], ...] = ()
    if table.is_file():
        kind = read_table(table).get("kind")
        found = (
            load_spec(ArmSpec, str(table)) if kind == "arm" else load_spec(GripperSpec, str(table))
        )
        if found.mjcf.resolve() == path:
            robots = (("", found),)
    return Subject(str(path), model, spec, robots, remarks=remarks)


def _read(path: Path) -> mujoco.MjSpec:
    if not path.is_file():
        raise ModelError(f"there is no file {path}")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"cannot read {path} as text: {error}") from error
    if "<include" not in text:
        return load(path)
    try:
        return mujoco.MjSpec.from_file(str(path))  # includes are found from the file's folder
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot load model {path}: {error}") from error


def environment_subject(env: PicoPandaEnv, name: str) -> Subject:
    """Take an environment's model after a reset with seed 0, its objects where they were drawn."""
    env.reset(seed=0)
    model = copy.copy(env.model)
    home = model.key("home")
    model.key_qpos[home.id] = env.data.qpos
    model.key_mpos[home.id] = env.data.mocap_pos.ravel()
    model.key_mquat[home.id] = env.data.mocap_quat.ravel()
    robots: list[tuple[str, ArmSpec | GripperSpec]] = []
    for side, arm in env.arms.items():
        robots += [(side.prefix, arm.arm), (side.prefix + HAND, arm.gripper)]
    return Subject(name, model, None, tuple(robots), composed=True)


def check(subject: Subject) -> Report:
    """Run every check that the subject allows."""
    model, found = subject.model, list[Finding]()
    for remark in subject.remarks:
        found.append(
            Finding(Severity.WARNING, "compiler", "model", remark, 1.0, 0.0, "", "see MuJoCo's log")
        )
    for still_check in still.CHECKS:
        found += still_check(model)
    found += _moving(model)
    left_out = []
    if subject.written is not None:
        found += written.counted_twice(subject.written, model)
    else:
        left_out.append("visual-mass: it needs the file; check the files of models/ alone")
    if not subject.robots:
        left_out.append(
            f"servo-time, home-differs, frame-turned, floating-root and others of a robot: no "
            f"{SPEC_FILE} about this model stands beside it"
        )
    if subject.composed or subject.robots:
        scene = load(MODELS / "arena" / "arena.xml").option
        found += written.lost_options(model.opt, scene)
    else:
        left_out.append(f"option-lost: without {SPEC_FILE} it is not meant to be attached")
    for prefix, spec in subject.robots:
        found += _robot(subject, prefix, spec)
    found.sort(key=lambda one: -one.severity)
    return Report(subject.name, tuple(found), tuple(left_out))


def _moving(model: mujoco.MjModel) -> list[Finding]:
    home = still.at_home(model)
    found = [*motion.rows_at_home(model, home), *motion.contacts_at_home(model, home)]
    rested = motion.rest(model, home)
    found += motion.breakdown(model, rested)
    if not rested.end.warning.number.any():  # else its numbers mean nothing
        found += motion.joints_at_rest(model, rested)
        found += motion.servos_at_rest(model, rested)
        found += motion.forces_at_rest(model, rested)
        found += motion.falls(model, rested)
        found += motion.limits_under_force(model, home)
    return found


def _robot(subject: Subject, prefix: str, spec: ArmSpec | GripperSpec) -> list[Finding]:
    model, found = subject.model, list[Finding]()
    if subject.written is not None:
        found += written.floating_root(subject.written, spec.root)
    if isinstance(spec, ArmSpec):
        found += robot.arm_servos(model, spec, prefix)
        found += robot.arm_home(model, spec, prefix)
    else:
        found += robot.gripper_frame(model, spec, prefix)
        if subject.composed:
            found += robot.tool_at_home(model, spec, prefix, np.array([0.0, 0.0, 1.0]))
    return found
