"""Checks of masses and inertias: ``model -> findings``."""

from collections.abc import Iterator

import mujoco
import numpy as np

from .findings import Finding, Kind, Severity, place

GYRATION = 3.0
"""Times a body's reach; the identified Panda's link1 has 1.5, which is odd but published."""
DENSITY = (1.0, 25_000.0)
"""kg/m3; from foam to more than the densest metal (osmium: 22 590)."""


def inertias(model: mujoco.MjModel) -> Iterator[Finding]:
    """Find masses and inertias that do not fit the shapes they belong to."""
    for b in range(1, model.nbody):
        mass, first = float(model.body_mass[b]), int(model.body_geomadr[b])
        geoms = list(range(first, first + int(model.body_geomnum[b]))) if first >= 0 else []
        if mass <= 0.0 or not geoms:
            continue
        reach = max(
            float(np.linalg.norm(model.geom_pos[g] - model.body_ipos[b]) + model.geom_rbound[g])
            for g in geoms
        )
        gyration = float(np.sqrt(model.body_inertia[b].max() / mass))
        if 0.0 < reach < np.inf and gyration > GYRATION * reach:
            yield Finding(
                Severity.WARNING,
                "inertia-large",
                place(model, Kind.mjOBJ_BODY, b),
                "radius of gyration, against the farthest point of its shapes",
                gyration,
                GYRATION * reach,
                "m",
                "look for a wrong unit (g mm2, CAD exports) or an inertia about another point",
            )
        volume = sum(_volume(model, g) for g in geoms)
        if volume > 0.0 and not DENSITY[0] <= mass / volume <= DENSITY[1]:
            low = mass / volume < DENSITY[0]
            yield Finding(
                Severity.WARNING,
                "density",
                place(model, Kind.mjOBJ_BODY, b),
                f"mass {mass:.3g} kg over the volume of its shapes",
                mass / volume,
                DENSITY[0] if low else DENSITY[1],
                "kg/m3",
                "look for a wrong unit (grams, millimetres) or a shape that is missing",
            )


def _volume(model: mujoco.MjModel, geom: int) -> float:
    """Return the volume of a primitive [m3]; 0 for others."""
    x, y, z = model.geom_size[geom].tolist()
    kind = mujoco.mjtGeom(int(model.geom_type[geom]))
    return {
        mujoco.mjtGeom.mjGEOM_SPHERE: 4.0 / 3.0 * np.pi * x**3,
        mujoco.mjtGeom.mjGEOM_CAPSULE: np.pi * x * x * (2.0 * y + 4.0 / 3.0 * x),
        mujoco.mjtGeom.mjGEOM_CYLINDER: np.pi * x * x * 2.0 * y,
        mujoco.mjtGeom.mjGEOM_ELLIPSOID: 4.0 / 3.0 * np.pi * x * y * z,
        mujoco.mjtGeom.mjGEOM_BOX: 8.0 * x * y * z,
    }.get(kind, 0.0)


def light_dofs(model: mujoco.MjModel) -> Iterator[Finding]:
    """Find joints that move next to nothing: any force throws them."""
    limit = 1e-9
    for d in range(model.nv):
        if model.dof_M0[d] < limit:
            yield Finding(
                Severity.WARNING,
                "inertia-small",
                place(model, Kind.mjOBJ_JOINT, model.dof_jntid[d]),
                "inertia that the joint moves",
                float(model.dof_M0[d]),
                limit,
                "kg or kg m2",
                "give what hangs on the joint a mass, or the joint an armature",
            )
