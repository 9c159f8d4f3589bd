"""Look up MuJoCo objects by name, once, with an error that lists the names there are."""

from collections.abc import Sequence

import mujoco
import numpy as np
import numpy.typing as npt

from .errors import KinematicsError, UnknownNameError

Index = slice | npt.NDArray[np.intp]

_COUNTS = {
    mujoco.mjtObj.mjOBJ_BODY: "nbody",
    mujoco.mjtObj.mjOBJ_JOINT: "njnt",
    mujoco.mjtObj.mjOBJ_GEOM: "ngeom",
    mujoco.mjtObj.mjOBJ_SITE: "nsite",
    mujoco.mjtObj.mjOBJ_CAMERA: "ncam",
    mujoco.mjtObj.mjOBJ_ACTUATOR: "nu",
    mujoco.mjtObj.mjOBJ_KEY: "nkey",
}


def names_of(model: mujoco.MjModel, kind: mujoco.mjtObj) -> list[str]:
    """Return the names of all objects of a kind, in the model's order."""
    count = getattr(model, _COUNTS[kind])
    names = (mujoco.mj_id2name(model, int(kind), index) for index in range(count))
    return [name for name in names if name]


def named_id(model: mujoco.MjModel, kind: mujoco.mjtObj, name: str) -> int:
    """Return the id of a named object; raise UnknownNameError with the names there are."""
    index = mujoco.mj_name2id(model, int(kind), name)
    if index < 0:
        label = kind.name.removeprefix("mjOBJ_").lower()
        known = ", ".join(names_of(model, kind)) or "none"
        raise UnknownNameError(f"the model has no {label} named {name!r}; it has: {known}")
    return index


def joint_addresses(
    model: mujoco.MjModel, joints: Sequence[str]
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Return the qpos and dof addresses (n,), (n,) of named hinge or slide joints."""
    ids = [named_id(model, mujoco.mjtObj.mjOBJ_JOINT, name) for name in joints]
    scalar = {int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE)}
    for name, index in zip(joints, ids, strict=True):
        if int(model.jnt_type[index]) not in scalar:
            raise KinematicsError(f"joint {name!r} is not a hinge or slide")
    qpos = np.array([model.jnt_qposadr[index] for index in ids], dtype=np.intp)
    dof = np.array([model.jnt_dofadr[index] for index in ids], dtype=np.intp)
    return qpos, dof


def as_index(addresses: npt.NDArray[np.intp]) -> Index:
    """Return a slice for addresses (n,) that follow one another: indexing by it is faster."""
    first = int(addresses[0])
    if np.array_equal(addresses, np.arange(first, first + len(addresses))):
        return slice(first, first + len(addresses))
    return addresses
