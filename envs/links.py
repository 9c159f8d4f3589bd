"""How near an arm's links come to the other arm, the table and each other.

The geoms that may touch in MuJoCo are the links. Fingers are for touching: only the other arm's
links keep a distance from them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import NamedTuple

import mujoco
import numpy as np

from kinematics import Side
from kinematics.frames import Array
from kinematics.names import as_index, joint_addresses

from .scene import HAND, Mount, assemble


class Margin(NamedTuple):
    """Say how near two links may come."""

    least: float
    """m"""
    closing: float
    """m/s of an arm; approached as fast, the limit begins to slow it."""


ACROSS = Margin(0.020, 1.0)
"""Between two arms; 20 mm is ten times what the servos trail by."""
FINGERS = Margin(0.005, 1.0)
"""Between one arm's fingers and the other's links: to pass an object on they come near."""
TABLE = Margin(0.010, 1.0)
"""As far as the workspace keeps the tool's centre from it."""
OWN = Margin(0.002, 0.3)
"""Between links of one arm, which need only not touch: the tool near the base folds the arm up, and
with 10 mm there it stuck for good where it passes with 2. The wrist folds at 2.6 rad/s, 0.1 m from
its axes."""
_INSET = 0.001
"""m; corners of boxes and cylinders are spheres of this radius, inside."""


class Pair(NamedTuple):
    """Hold two links that keep a distance."""

    a: int
    b: int
    """Geoms."""
    margin: Margin
    sides: tuple[Side, ...]
    """Arms whose links they are."""
    corners: tuple[tuple[int, int], ...]
    """Geoms, each corner of one with the other."""


class Links:
    """Measure distances between links, in any postures of the arms."""

    def __init__(self, mounts: Mapping[Side, Mount], scene: mujoco.MjModel) -> None:
        """``scene`` is the model whose states are looked at."""
        self.model = model = compose_links(mounts)
        self.data = mujoco.MjData(model)
        prefixes = tuple(side.prefix for side in mounts)
        names = [model.joint(index).name for index in range(model.njnt)]
        self.joints = [name for name in names if name.startswith(prefixes)]
        """Of arms and fingers; whatever else a scene is made with stands still."""
        adr, dofs = joint_addresses(model, self.joints)
        self._adr, self._range = as_index(adr), model.jnt_range[model.dof_jntid[dofs]]
        self.fingers = _fingers(model, mounts)
        """Bodies that grippers move."""
        self._segment = np.zeros(6)
        links = _find_links(model, mounts, self.fingers)
        self.pairs = self._varying(list(_find_pairs(model, links)))
        self.scene_adr, _ = joint_addresses(scene, self.joints)
        ends = np.array([(pair.a, pair.b) for pair in self.pairs])
        self._ends, self._n = np.concatenate([ends[:, 0], ends[:, 1]]), len(self.pairs)
        self._places, self._apart = np.zeros((2 * self._n, 3)), np.zeros((self._n, 3))
        self._radii = model.geom_rbound[ends].sum(axis=1)
        # A sphere around the table would be big: what counts there is the height over it.
        flat = np.array([pair.margin is TABLE for pair in self.pairs])
        self._flat = np.flatnonzero(flat)
        mujoco.mj_kinematics(model, self.data)
        table = int(ends[flat][0, 1])
        top = self.data.geom_xpos[table, 2] + model.geom_size[table, 2]
        self._radii[flat] = model.geom_rbound[ends[flat, 0]] + top

    def place(self, qpos: Array) -> None:
        """Go to the scene's state ``qpos``."""
        self.data.qpos[self._adr] = qpos[self.scene_adr]

    def bounds(self) -> Array:
        """Return what no pair's distance is below (P,) [m], by the spheres around the links."""
        mujoco.mj_kinematics(self.model, self.data)
        places, apart = self._places, self._apart
        np.take(self.data.geom_xpos, self._ends, axis=0, out=places)
        np.subtract(places[: self._n], places[self._n :], out=apart)
        np.multiply(apart, apart, out=apart)
        found = np.add.reduce(apart, axis=1)
        np.sqrt(found, out=found)
        found[self._flat] = places[self._flat, 2]
        return np.subtract(found, self._radii, out=found)

    def distance(self, a: int, b: int, most: float) -> tuple[float, list[float]]:
        """Return the distance [m] of two geoms, at most ``most``, and the segment (6,) from a to b.

        Negative: they overlap by as much.
        """
        found = mujoco.mj_geomDistance(self.model, self.data, a, b, most, self._segment)
        return found, self._segment.tolist()

    def _varying(self, pairs: list[Pair]) -> tuple[Pair, ...]:
        """Return the pairs without those whose distance joints hardly change, as across an elbow.

        They would say of every posture that it is as near as the arm was built.
        """
        rng, (lower, upper) = np.random.default_rng(0), self._range.T
        own, rows = [pair for pair in pairs if len(pair.sides) == 1], list[list[float]]()
        for _ in range(_POSTURES):
            self.data.qpos[self._adr] = rng.uniform(lower, upper)
            mujoco.mj_kinematics(self.model, self.data)
            rows.append([self.distance(pair.a, pair.b, _FAR)[0] for pair in own])
        spread = np.ptp(rows, axis=0).tolist()
        built = {pair for pair, most in zip(own, spread, strict=True) if most < _BUILT}
        return tuple(pair for pair in pairs if pair not in built)

    def smallest(self, qpos: Array) -> dict[Side, float]:
        """Return the smallest distance [m] of each arm's links in the scene's state ``qpos``."""
        self.place(qpos)
        bounds = self.bounds()
        found = {side: np.inf for pair in self.pairs for side in pair.sides}
        for k in np.argsort(bounds, kind="stable").tolist():
            pair = self.pairs[k]
            most = max(found[side] for side in pair.sides)
            if bounds[k] >= max(found.values()):
                break
            if bounds[k] >= most:
                continue
            distance, _ = self.distance(pair.a, pair.b, min(most, _FAR))
            for side in pair.sides:
                found[side] = min(found[side], distance)
        return found


_FAR = 10.0
"""m; farther than any two links."""
_POSTURES = 50
_BUILT = 5e-3
"""m; what a distance that joints hardly change differs by, from posture to posture."""


def compose_links(mounts: Mapping[Side, Mount]) -> mujoco.MjModel:
    """Return arms and table as geoms that may touch, and their corners as spheres.

    Joints and bodies are called as in the scene; the geoms of a body are ``<body>/0`` and so on,
    their corners ``<body>/0/0`` and so on.
    """
    spec = assemble(mounts, ())
    doomed = [*spec.actuators, *spec.sensors, *spec.equalities, *spec.tendons, *spec.cameras]
    doomed += [*spec.sites, *spec.lights, *spec.materials, *spec.textures, *spec.worldbody.geoms]
    for body in spec.bodies:
        touching = [geom for geom in body.geoms if geom.contype or geom.conaffinity]
        doomed += [geom for geom in body.geoms if geom not in touching]
        for number, geom in enumerate(touching):
            geom.name = f"{body.name}/{number}"
    for element in doomed:
        spec.delete(element)
    model = spec.compile()
    for index in range(model.ngeom):
        geom = model.geom(index)
        for number, (radius, point) in enumerate(_corners(model, index)):
            spec.body(model.body(geom.bodyid[0]).name).add_geom(
                name=f"{geom.name}/{number}",
                type=mujoco.mjtGeom.mjGEOM_SPHERE,
                size=(radius, 0.0, 0.0),
                pos=point,
                contype=0,
                conaffinity=0,
            )
    return spec.compile()


def _corners(model: mujoco.MjModel, geom: int) -> list[tuple[float, Array]]:
    """Return radius [m] and place in the body (3,) of spheres at a geom's corners."""
    kind, size = int(model.geom_type[geom]), model.geom_size[geom]
    if kind == int(mujoco.mjtGeom.mjGEOM_CAPSULE):
        radius, points = float(size[0]), [(0.0, 0.0, end * size[1]) for end in (-1, 1)]
    elif kind == int(mujoco.mjtGeom.mjGEOM_BOX):
        radius = _INSET
        points = list(product(*((-half + radius, half - radius) for half in size)))
    elif kind == int(mujoco.mjtGeom.mjGEOM_CYLINDER):
        radius = _INSET
        rim, end = float(size[0]) - radius, float(size[1]) - radius
        around = ((rim, 0.0), (0.0, rim), (-rim, 0.0), (0.0, -rim))
        points = [(x, y, z) for x, y in around for z in (-end, end)]
    else:  # spheres and ellipsoids have none, those of meshes are left out
        return []
    found = list[tuple[float, Array]]()
    for point in points:
        place = np.zeros(3)
        mujoco.mju_rotVecQuat(place, np.array(point), model.geom_quat[geom])
        found.append((radius, place + model.geom_pos[geom]))
    return found


class _Link(NamedTuple):
    """Hold a geom that may touch."""

    geom: int
    side: Side | None
    """None: the table."""
    finger: bool
    fixed: bool
    """No joint moves it."""
    corners: tuple[int, ...]


def _find_links(
    model: mujoco.MjModel, mounts: Mapping[Side, Mount], fingers: set[int]
) -> list[_Link]:
    """Return the links in the model's order, the table last."""
    corners, geoms = dict[int, list[int]](), list[int]()
    for geom in range(model.ngeom):
        owner = model.geom(geom).name.rpartition("/")[0]
        if owner == model.body(model.geom_bodyid[geom]).name:
            geoms.append(geom)
        else:
            corners.setdefault(int(model.geom(owner).id), []).append(geom)
    found = list[_Link]()
    for geom in geoms:
        name, body = model.geom(geom).name, int(model.geom_bodyid[geom])
        side = next((side for side in mounts if name.startswith(side.prefix)), None)
        fixed = int(model.body_weldid[body]) == 0
        if side is None and not fixed:
            continue  # an object: for touching
        found.append(_Link(geom, side, body in fingers, fixed, tuple(corners.get(geom, ()))))
    return sorted(found, key=lambda link: link.side is None)


def _find_pairs(model: mujoco.MjModel, links: Iterable[_Link]) -> Iterator[Pair]:
    """Yield the links that keep a distance; with the table, it is the second."""
    for a, b in combinations(links, 2):
        margin = _margin(model, a, b)
        if margin is None:
            continue
        sides = tuple(dict.fromkeys(link.side for link in (a, b) if link.side is not None))
        corners = list[tuple[int, int]]()
        if margin is not FINGERS:
            corners += [(corner, b.geom) for corner in a.corners]
        if margin in (ACROSS, OWN):
            corners += [(a.geom, corner) for corner in b.corners]
        yield Pair(a.geom, b.geom, margin, sides, tuple(corners))


def _margin(model: mujoco.MjModel, a: _Link, b: _Link) -> Margin | None:
    """Return what two links keep between them, if anything."""
    fingers = a.finger + b.finger
    if (a.fixed and b.fixed) or fingers == 2:
        return None
    if a.side is b.side:
        return OWN if not fingers and _may_touch(model, a.geom, b.geom) else None
    if b.side is None:
        return None if fingers else TABLE
    return FINGERS if fingers else ACROSS


def _may_touch(model: mujoco.MjModel, a: int, b: int) -> bool:
    """Return whether MuJoCo lets two geoms of an arm collide: its own rules for bodies."""
    bodies = [int(model.geom_bodyid[geom]) for geom in (a, b)]
    one, two = (int(model.body_weldid[body]) for body in bodies)
    parents = [int(model.body_weldid[model.body_parentid[weld]]) for weld in (one, two)]
    if one == two or (one and two and (parents[0] == two or parents[1] == one)):
        return False
    low, high = sorted(bodies)
    return (low << 16) + high not in model.exclude_signature


def levers(model: mujoco.MjModel, joints: Sequence[str]) -> list[float]:
    """Return, for each joint, how far [m] a point of a link it moves can be from it, at most."""
    reach = [0.0] * model.nbody
    for geom in range(model.ngeom):
        body = int(model.geom_bodyid[geom])
        far = mujoco.mju_norm3(model.geom_pos[geom]) + float(model.geom_rbound[geom])
        reach[body] = max(reach[body], far)
    for body in range(model.nbody - 1, 0, -1):  # children come after their parents
        parent = int(model.body_parentid[body])
        far = mujoco.mju_norm3(model.body_pos[body]) + _travel(model, body) + reach[body]
        reach[parent] = max(reach[parent], far)
    found = [model.joint(name) for name in joints]
    return [mujoco.mju_norm3(joint.pos) + reach[int(joint.bodyid[0])] for joint in found]


def _travel(model: mujoco.MjModel, body: int) -> float:
    """Return how far [m] a body's own slides move it."""
    first = int(model.body_jntadr[body])
    own = range(first, first + int(model.body_jntnum[body]))
    slides = [j for j in own if int(model.jnt_type[j]) == int(mujoco.mjtJoint.mjJNT_SLIDE)]
    return sum(float(np.abs(model.jnt_range[j]).max()) for j in slides)


def _fingers(model: mujoco.MjModel, mounts: Mapping[Side, Mount]) -> set[int]:
    """Return the bodies that grippers move."""
    found = set[int]()
    for side, mount in mounts.items():
        roots = {
            int(model.joint(side.prefix + HAND + name).bodyid[0]) for name in mount.gripper.joints
        }
        for body in range(model.nbody):
            if body in roots or int(model.body_parentid[body]) in found:
                found.add(body)
    return found
