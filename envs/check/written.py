"""Checks of the file as it was written: what compiling no longer shows."""

from collections.abc import Iterator

import mujoco
import numpy as np

from .findings import Finding, Severity


def counted_twice(spec: mujoco.MjSpec, model: mujoco.MjModel) -> Iterator[Finding]:
    """Find bodies whose mass is taken from shapes for the eye as well as from those for contact."""
    for body in spec.bodies:
        if body.explicitinertial or model.body_weldid[body.id] == 0:  # given, or it cannot move
            continue
        geoms = list(body.geoms)
        seen = [g for g in geoms if not (g.contype or g.conaffinity) and _weighs(g)]
        felt = [g for g in geoms if (g.contype or g.conaffinity) and _weighs(g)]
        if seen and felt:
            yield Finding(
                Severity.WARNING,
                "visual-mass",
                f"body {body.name}",
                "shapes without contact that add to the mass, beside those with contact",
                len(seen),
                0.0,
                "",
                'give the shapes for the eye mass="0", or the body an <inertial>',
            )


def _weighs(geom: mujoco.MjsGeom) -> bool:
    # mass is NaN when it was not written, and the density counts then
    return bool(geom.mass > 0.0 if np.isfinite(geom.mass) else geom.density > 0.0)


def floating_root(spec: mujoco.MjSpec, root: str) -> Iterator[Finding]:
    """Find a robot's root that has a joint: attaching makes it part of something else."""
    body = spec.body(root)
    if body is not None and len(list(body.joints)):
        yield Finding(
            Severity.ERROR,
            "floating-root",
            f"body {root}",
            "joints of a robot's root, which stands on its base or flange",
            len(list(body.joints)),
            0.0,
            "",
            "take the root's joints away",
        )


OPTIONS = ("timestep", "integrator", "cone", "impratio", "gravity", "disableflags", "enableflags")


def lost_options(mine: mujoco.MjOption, scene: mujoco.MjOption) -> Iterator[Finding]:
    """Find options that composing would drop, or has dropped."""
    for name in OPTIONS:
        own, kept = (np.atleast_1d(np.asarray(getattr(o, name), float)) for o in (mine, scene))
        if not np.allclose(own, kept, rtol=1e-12, atol=0.0):
            yield Finding(
                Severity.ERROR,
                "option-lost",
                f"option {name}",
                "the file's own, against the one it is composed with",
                float(own[-1]),
                float(kept[-1]),
                "",
                "attaching drops a part's options: write the same <option> as models/arena",
            )
