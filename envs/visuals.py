"""What the robots look like: our own primitives, or the meshes of MuJoCo Menagerie.

Pictures of meshes are taken of a second model, which follows the simulation's. The simulation's
model, its hash and its states know nothing of it: an episode recorded with one look replays with
the other.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import mujoco
import numpy as np

from kinematics import Side

from .errors import OptionError
from .options import check_choice
from .robots import MODELS
from .scene import HAND, Mount, Prop, assemble, load

VISUALS = ("primitive", "menagerie")
ROOT = "MENAGERIE_ROOT"
"""Environment variable: a checkout of Menagerie to use, as its package has it."""

_ROBOT, _FILE = "franka_emika_panda", "panda.xml"
_PREFIX = "menagerie/"
_ARM = tuple(f"link{i}" for i in range(8))
_HAND = ("hand", "left_finger", "right_finger")
_GROUP = 2  # of visual geoms, here and in Menagerie
_MESH_FIELDS = ("scale", "refpos", "refquat", "inertia", "smoothnormal", "maxhullvert")
_MATERIAL_FIELDS = ("rgba", "specular", "shininess", "reflectance", "emission")
_SHARED = ("geom_rgba", "geom_pos", "geom_quat", "geom_size")


def check_visuals(visuals: str, mounts: Mapping[Side, Mount]) -> None:
    """Raise OptionError for unknown ``visuals``, or for a robot that they do not have."""
    check_choice("visuals", visuals, VISUALS)
    strangers = {m.arm.mjcf.stem for m in mounts.values()} - {"panda"}
    if visuals == "menagerie" and strangers:
        raise OptionError(
            f"visuals='menagerie' has meshes of robot='panda' alone, not of {sorted(strangers)}: "
            "take visuals='primitive'"
        )


def menagerie_panda() -> Path:
    """Return Menagerie's model file of the Panda, downloaded by its package on first use.

    Raises OptionError when it cannot be had.
    """
    if root := os.environ.get(ROOT):
        path = Path(root) / _ROBOT / _FILE
        if not path.is_file():
            raise OptionError(
                f"visuals='menagerie': {ROOT} is {root}, where {path} is missing; let it name a "
                f"checkout of MuJoCo Menagerie, or unset it and install the extra: {_EXTRA}"
            )
        return path
    try:
        import mujoco_menagerie  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise OptionError(
            f"visuals='menagerie' needs meshes ({error}); install the extra, which downloads them: "
            f"{_EXTRA}; or let {ROOT} name a checkout of MuJoCo Menagerie"
        ) from error
    try:
        return Path(mujoco_menagerie.get(_ROBOT).path()) / _FILE
    except (mujoco_menagerie.MenagerieError, OSError) as error:
        raise OptionError(
            f"visuals='menagerie': the package mujoco-menagerie could not get {_ROBOT} ({error}); "
            f"let {ROOT} name a checkout of MuJoCo Menagerie, or take visuals='primitive'"
        ) from error


_EXTRA = 'python -m pip install -e ".[menagerie]"'


class MeshPandas:
    """Show the simulation's state with the mesh Panda's visual geoms on our bodies."""

    def __init__(
        self,
        base: mujoco.MjModel,
        mounts: Mapping[Side, Mount],
        objects: Iterable[str | Prop],
        distractors: bool = False,
    ) -> None:
        """``base``: the simulation's model, of the same mounts, objects and distractors.

        Raises OptionError when the meshes cannot be had.
        """
        self._base = base
        self.model = _dressed(assemble(mounts, objects, distractors), mounts, menagerie_panda())
        """The same bodies, joints, cameras and lights; other geoms and materials on the arms."""
        self._data = mujoco.MjData(self.model)
        names = [self.model.geom(i).name for i in range(self.model.ngeom)]
        pairs = [(base.geom(name).id, i) for i, name in enumerate(names) if name]
        self._ours, self._here = np.array(pairs).T
        self._whole = [n for n in dir(base) if n.startswith(("cam_", "light_"))]

    def follow(self, data: mujoco.MjData) -> mujoco.MjData:
        """Return data of ``model`` with the poses of the simulation's ``data`` and its colours."""
        base, model, shown = self._base, self.model, self._data
        for name in _SHARED:
            getattr(model, name)[self._here] = getattr(base, name)[self._ours]
        model.mat_rgba[: base.nmat] = base.mat_rgba
        for name in self._whole:
            getattr(model, name)[:] = getattr(base, name)
        for name in ("ambient", "diffuse", "specular"):
            getattr(model.vis.headlight, name)[:] = getattr(base.vis.headlight, name)
        shown.qpos[:] = data.qpos
        mujoco.mj_kinematics(model, shown)
        mujoco.mj_comPos(model, shown)
        mujoco.mj_camlight(model, shown)
        return shown


def _dressed(spec: mujoco.MjSpec, mounts: Mapping[Side, Mount], path: Path) -> mujoco.MjModel:
    """Exchange the arms' visual geoms for those of Menagerie's file, and compile."""
    source = load(path)
    known = {body.name: _visual_meshes(body) for body in source.bodies}
    missing = [name for name in (*_ARM, *_HAND) if not known.get(name)]
    if missing:
        raise OptionError(
            f"visuals='menagerie': {path} has no visual meshes on {missing}; "
            f"let {ROOT} name a checkout of MuJoCo Menagerie that has"
        )
    _add_assets(spec, source, path)
    for side, mount in mounts.items():
        dressed = {side.prefix + name: known[name] for name in _ARM}
        if mount.gripper.mjcf.parent == MODELS / "franka_hand":
            dressed |= {side.prefix + HAND + name: known[name] for name in _HAND}
        for name, geoms in dressed.items():
            _dress(spec, spec.body(name), geoms)
    try:
        return spec.compile()
    except ValueError as error:
        raise OptionError(
            f"visuals='menagerie': cannot use the meshes of {path}: {error}"
        ) from error


def _visual_meshes(body: mujoco.MjsBody) -> list[mujoco.MjsGeom]:
    return [g for g in body.geoms if g.group == _GROUP and g.contype == 0 and g.meshname]


def _dress(spec: mujoco.MjSpec, body: mujoco.MjsBody, geoms: Iterable[mujoco.MjsGeom]) -> None:
    """Take the visual geoms off a body and put meshes there, which touch and weigh nothing."""
    for geom in list(body.geoms):
        if geom.group == _GROUP:
            spec.delete(geom)
    for geom in geoms:
        added = body.add_geom(
            type=mujoco.mjtGeom.mjGEOM_MESH,
            meshname=_PREFIX + geom.meshname,
            pos=geom.pos,
            quat=geom.quat,
            rgba=geom.rgba,
            group=_GROUP,
            contype=0,
            conaffinity=0,
            mass=0.0,
        )
        if geom.material:
            added.material = _PREFIX + geom.material


def _add_assets(spec: mujoco.MjSpec, source: mujoco.MjSpec, path: Path) -> None:
    """Add the source's materials and visual meshes, after our own, which keep their numbers."""
    for material in source.materials:
        fields = {name: getattr(material, name) for name in _MATERIAL_FIELDS}
        spec.add_material(name=_PREFIX + material.name, **fields)
    used = {geom.meshname for body in source.bodies for geom in _visual_meshes(body)}
    for mesh in source.meshes:
        name = mesh.name or Path(mesh.file).stem
        if name not in used:
            continue
        file = path.parent / source.meshdir / mesh.file
        try:
            content = file.read_bytes()
        except OSError as error:
            raise OptionError(f"visuals='menagerie': cannot read {file}: {error}") from error
        # Given as bytes, so that the path may hold any letters on any system.
        stored = _PREFIX.replace("/", "_") + Path(mesh.file).name
        spec.assets[stored] = content
        fields = {field: getattr(mesh, field) for field in _MESH_FIELDS}
        spec.add_mesh(name=_PREFIX + name, file=stored, **fields)
