"""Compose arms, tools, table and a task's objects into one model."""

import hashlib
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import mujoco
import numpy as np
import numpy.typing as npt
from scipy.spatial.transform import RigidTransform

from kinematics import Side
from kinematics.frames import pose, quat_wxyz
from kinematics.targets import frozen_array

from .errors import ModelError, OptionError
from .robots import MODELS, ArmSpec, GripperSpec, load_spec

TIMESTEP = 1.0 / 600.0
"""s; 200, 100, 60, 50, 30, 25 and 20 Hz are whole numbers of it."""
USERDATA = 8
"""Floats of ``MjData.userdata`` for task counters, so that a restored state restores them."""
HAND = "hand/"
OBJECT = "task/"
DISTRACTOR = "distractor_"
_SHAPES: tuple[tuple[mujoco.mjtGeom, tuple[float, float, float]], ...] = (
    (mujoco.mjtGeom.mjGEOM_BOX, (0.020, 0.020, 0.020)),
    (mujoco.mjtGeom.mjGEOM_BOX, (0.028, 0.016, 0.012)),
    (mujoco.mjtGeom.mjGEOM_CYLINDER, (0.025, 0.030, 0.0)),
    (mujoco.mjtGeom.mjGEOM_CYLINDER, (0.035, 0.010, 0.0)),
    (mujoco.mjtGeom.mjGEOM_SPHERE, (0.022, 0.0, 0.0)),
    (mujoco.mjtGeom.mjGEOM_ELLIPSOID, (0.030, 0.020, 0.015)),
)
"""Of distractors: MuJoCo's type and size [m], such as the tasks' own objects have."""


@dataclass(frozen=True, slots=True)
class Prop:
    """Put a model file into a scene under a name of its own, so that there may be several of it.

    Its names begin with ``task/<name>/``, its root body is ``task/<name>/<file>``.
    """

    name: str
    file: str
    """Folder of ``models/``."""
    rgba: tuple[float, float, float, float] | None = None
    """Colour of all its materials; None leaves them as they are."""

    @property
    def prefix(self) -> str:
        """Return what its names in the model begin with."""
        return f"{OBJECT}{self.name}/"


@dataclass(frozen=True, slots=True, eq=False)
class Mount:
    """Say which robot stands where."""

    arm: ArmSpec = field(default_factory=lambda: load_spec(ArmSpec, "panda"))
    gripper: GripperSpec = field(default_factory=lambda: load_spec(GripperSpec, "franka_hand"))
    T_world_base: RigidTransform = field(default_factory=lambda: pose((0.0, 0.0, 0.0)))


BASES: dict[int, dict[Side, tuple[float, float, float, float]]] = {
    1: {Side.RIGHT: (0.0, 0.0, 0.0, 0.0)},
    # Two arms side by side, each turned 15 degrees inwards: their workspaces meet over the table.
    2: {Side.RIGHT: (0.0, -0.30, 0.0, np.pi / 12), Side.LEFT: (0.0, 0.30, 0.0, -np.pi / 12)},
}
"""Where the bases stand, by the number of arms: x, y, z [m] and yaw [rad] in world."""

OPERATOR_Y = {1: 0.4, 2: 0.0}
"""m; where the eyes of the cameras ``stereo_left`` and ``stereo_right`` are, by the number of arms:
between two arms, and with one to the left of it, which would hide what the right hand does."""


def make_mounts(
    n_arms: int,
    robot: str = "panda",
    end_effector: str = "gripper",
    base_pose: Mapping[str, Sequence[float]] | None = None,
) -> dict[Side, Mount]:
    """Return the mounts of one or two arms.

    ``robot`` and ``end_effector`` name spec files; "gripper" is the arm's own. ``base_pose`` gives,
    by side, another (x, y, z, yaw) [m, rad] in world. Raises OptionError.
    """
    arm = load_spec(ArmSpec, robot)
    gripper = load_spec(GripperSpec, arm.gripper if end_effector == "gripper" else end_effector)
    bases: dict[Side, Sequence[float]] = dict(BASES[n_arms])
    for side, given in (base_pose or {}).items():
        if side not in bases:
            raise OptionError(f"base_pose has {side!r}; the arms are {[s.value for s in bases]}")
        try:
            bases[Side(side)] = frozen_array(given, (4,), "x, y, z, yaw").tolist()
        except (TypeError, ValueError) as error:
            raise OptionError(f"base_pose[{side!r}]: {error}") from error
    return {
        side: Mount(arm, gripper, pose(base[:3], (np.cos(base[3] / 2), 0, 0, np.sin(base[3] / 2))))
        for side, base in bases.items()
    }


def load(path: Path) -> mujoco.MjSpec:
    """Read an MJCF file from text, so that the path may hold any letters on any system."""
    try:
        spec = mujoco.MjSpec.from_string(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"cannot load model {path}: {error}") from error
    spec.modelfiledir = str(path.parent)  # where a user's own arm keeps its meshes
    return spec


def part(path: Path) -> mujoco.MjSpec:
    """Read a file to be attached: without its keyframes.

    Attached, they come out filled with zeros for the other parts, and two of one name are an error
    in MuJoCo 4: ``compose`` makes one for the whole.
    """
    spec = load(path)
    for key in list(spec.keys):
        spec.delete(key)
    return spec


def attach(
    spec: mujoco.MjSpec,
    child: mujoco.MjSpec,
    root: str,
    prefix: str,
    T_world_root: RigidTransform | None = None,
) -> mujoco.MjsBody:
    """Hang a child's root body, prefixed, into the world of ``spec``."""
    placed = pose((0.0, 0.0, 0.0)) if T_world_root is None else T_world_root
    frame = spec.worldbody.add_frame(pos=placed.translation, quat=quat_wxyz(placed))
    return frame.attach_body(child.body(root), prefix, "")


def attach_robot(spec: mujoco.MjSpec, side: Side, mount: Mount) -> None:
    """Hang one arm with its tool into ``spec``, as ``right/...`` and ``right/hand/...``."""
    arm, gripper = mount.arm, mount.gripper
    child, tool = part(arm.mjcf), part(gripper.mjcf)
    _find(child, arm.mjcf, body=[arm.root], site=[arm.flange])
    _find(child, arm.mjcf, joint=arm.joints, actuator=arm.servos)
    _find(tool, gripper.mjcf, body=[gripper.root], joint=gripper.joints, geom=gripper.pads)
    _find(tool, gripper.mjcf, site=[gripper.ee_site], actuator=[gripper.actuator])
    attach(spec, child, arm.root, side.prefix, mount.T_world_base)
    flange = spec.site(side.prefix + arm.flange)
    flange.attach_body(tool.body(gripper.root), side.prefix + HAND, "")


def _find(spec: mujoco.MjSpec, path: Path, **wanted: Iterable[str]) -> None:
    """Raise ModelError unless the file has what its spec names."""
    for kind, names in wanted.items():
        elements = getattr(spec, "bodies" if kind == "body" else kind + "s")
        known = [element.name for element in elements]
        missing = [name for name in names if name not in known]
        if missing:
            raise ModelError(f"{path} has no {kind} {missing}; it has {known}")


def attach_object(spec: mujoco.MjSpec, thing: str | Prop) -> None:
    """Put a task's object into ``spec``: a folder of ``models/``, or a Prop."""
    prop = Prop(thing, thing) if isinstance(thing, str) else thing
    child = part(MODELS / prop.file / f"{prop.file}.xml")
    if prop.rgba is not None:
        for material in child.materials:
            material.rgba = prop.rgba
    attach(spec, child, prop.file, OBJECT if isinstance(thing, str) else prop.prefix)


def assemble(
    mounts: Mapping[Side, Mount], objects: Iterable[str | Prop], distractors: bool = False
) -> mujoco.MjSpec:
    """Return arms, table and objects as one specification, without keyframes."""
    spec = load(MODELS / "arena" / "arena.xml")
    attach(spec, part(MODELS / "table" / "table.xml"), "table", "scene/")
    for side, mount in mounts.items():
        attach_robot(spec, side, mount)
    for thing in objects:
        attach_object(spec, thing)
    if distractors:
        _add_distractors(spec)
    for eye in ("stereo_left", "stereo_right"):
        spec.camera(eye).pos[1] += OPERATOR_Y[len(mounts)]
    spec.nuserdata = USERDATA
    return spec


def _add_distractors(spec: mujoco.MjSpec) -> None:
    """Add shapes without contacts or joints, invisible until an episode lays them out."""
    for i, (kind, size) in enumerate(_SHAPES):
        height = next(length for length in reversed(size) if length)  # half of it, standing
        spec.worldbody.add_geom(
            name=f"{DISTRACTOR}{i}",
            type=kind,
            size=size,
            pos=(0.0, 0.0, height),
            quat=(0.8, 0.0, 0.0, 0.6),  # turned: MuJoCo takes what is not for never to be
            rgba=(0.5, 0.5, 0.5, 0.0),
            contype=0,
            conaffinity=0,
            group=2,
        )


def _set_home(model: mujoco.MjModel, mounts: Mapping[Side, Mount]) -> None:
    """Fill in the keyframe, which is compiled as qpos0 without ctrl."""
    home = model.key("home")
    qpos, ctrl = home.qpos, home.ctrl
    for side, mount in mounts.items():
        arm = mount.arm
        for name, servo, angle in zip(arm.joints, arm.servos, arm.home, strict=True):
            joint = model.joint(side.prefix + name)
            if not joint.range[0] <= angle <= joint.range[1]:
                raise ModelError(f"home of {joint.name} is {angle}, outside {joint.range} rad")
            qpos[joint.qposadr] = angle
            ctrl[model.actuator(side.prefix + servo).id] = angle
        gripper, hand = mount.gripper, side.prefix + HAND
        for name, travel in zip(gripper.joints, gripper.home, strict=True):
            qpos[model.joint(hand + name).qposadr] = travel
        ctrl[model.actuator(hand + gripper.actuator).id] = gripper.ctrl_open


def compose(
    mounts: Mapping[Side, Mount], objects: Iterable[str | Prop] = (), distractors: bool = False
) -> mujoco.MjModel:
    """Return the model of arms, table and named objects, with one ``home`` keyframe.

    ``objects`` name folders of ``models/``, whose bodies appear as ``task/<name>``, or are Props.
    ``distractors`` adds geoms that are only to be seen, hidden for now. Raises ModelError for
    whatever MuJoCo warns of, such as options lost while attaching.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            spec = assemble(mounts, objects, distractors)
            spec.add_key(name="home")
            model = spec.compile()
        except (UserWarning, ValueError) as error:
            raise ModelError(f"cannot compose {list(mounts)} with {objects}: {error}") from error
    _set_home(model, mounts)
    return model


def compose_arm(side: Side, mount: Mount) -> mujoco.MjModel:
    """Return one arm with its tool and nothing else: no geoms, joints of the arm only.

    The model for kinematics: the names are those of the whole scene.
    """
    spec = load(MODELS / "arena" / "arena.xml")
    attach_robot(spec, side, mount)
    keep = {side.prefix + name for name in mount.arm.joints}
    doomed = [*spec.geoms, *spec.actuators, *spec.equalities, *spec.tendons, *spec.excludes]
    doomed += [*spec.cameras, *spec.lights, *spec.materials, *spec.textures]
    doomed += [joint for joint in spec.joints if joint.name not in keep]
    for element in doomed:
        spec.delete(element)
    return spec.compile()


def model_sha256(model: mujoco.MjModel) -> str:
    """Return the SHA-256 of the compiled model's ``mj_saveModel`` bytes, in hexadecimal."""
    buffer = np.empty(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, buffer)
    return hashlib.sha256(buffer.tobytes()).hexdigest()


STATE = mujoco.mjtState.mjSTATE_INTEGRATION
"""Everything that the next step depends on."""


def get_state(model: mujoco.MjModel, data: mujoco.MjData) -> npt.NDArray[np.float64]:
    """Return the integration state (D,)."""
    state = np.empty(mujoco.mj_stateSize(model, int(STATE)))
    mujoco.mj_getState(model, data, state, int(STATE))
    return state
