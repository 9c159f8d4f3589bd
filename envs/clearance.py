"""The limit that keeps links apart: barriers in the inverse kinematics of every arm.

They stand between the commanded postures, once a control step and for all arms before any moves:
the result does not depend on their order. What approaches is slowed and then held, every other
motion goes on, so an arm slides along.
"""

from collections.abc import Mapping
from itertools import chain

import mujoco
import numpy as np

from kinematics import Side
from kinematics.barriers import Barrier
from kinematics.frames import Array
from kinematics.names import Index, as_index, joint_addresses

from .arm import ArmController
from .links import Links, Pair, levers

CORNERS = 0.020
"""m beyond the margin. So near, corners have barriers of their own: the nearest point of an edge
along a face leaps from end to end, and with one barrier there a hand could rock itself past it.
20 mm is more than a corner turns in a control step."""
_SUDDEN = 0.25
"""m/s that an arm may gain in a control step, 13 m/s2 at 50 Hz: how far off a barrier matters
depends on the speed."""
_ROOM = 0.1
"""m beyond where the limit begins that are looked at, to know how long no look is needed."""
_FINGER = 1.0
"""m a unit of a finger's joint: exact for slides, and no turning finger is longer."""
_TOUCHING = 1e-9
"""m; nearer, the segment between two links has no direction."""


class ClearanceLimit:
    """Put up the barriers of all arms."""

    def __init__(self, links: Links, arms: Mapping[Side, ArmController]) -> None:
        self._links, self._arms = links, arms
        model = links.model
        self._qpos_at: dict[Side, Index] = {
            side: as_index(joint_addresses(model, arm.ik.joints)[0]) for side, arm in arms.items()
        }
        # An arm at full speed that the limit slows decelerates as the hand's own limit would.
        rates = {s: arm.speed.linear_acceleration / arm.speed.linear for s, arm in arms.items()}
        self._rates = [min(rates[s] for s in p.sides) / len(p.sides) for p in links.pairs]
        margins = [pair.margin for pair in links.pairs]
        self._full = [m.least + m.closing / r for m, r in zip(margins, self._rates, strict=True)]
        self._search = np.array(self._full) + _ROOM
        self._levers = {side: levers(model, arm.ik.joints) for side, arm in arms.items()}
        posed = {joint for arm in arms.values() for joint in arm.ik.joints}
        addresses = zip(links.joints, links.scene_adr.tolist(), strict=True)
        # The fingers', which have distances from another arm only.
        self._others = [adr for joint, adr in addresses if len(arms) > 1 and joint not in posed]
        self._moves = [*chain(*self._levers.values())] + [_FINGER] * len(self._others)
        self._seen, self._slack = [0.0] * len(self._moves), 0.0
        """Joint positions at the last look, and the way [m] that was left to the first barrier."""
        self._carriers = [self._carrier(geom) for geom in range(model.ngeom)]
        self._cores = [_core(model, geom) for geom in range(model.ngeom)]
        self._barriers: dict[Side, list[Barrier]] = {side: [] for side in arms}

    def update(self, qpos: Array) -> None:
        """Put up barriers for the commanded postures, fingers as in the scene's ``qpos``."""
        # Plain floats: they cost less than calls of NumPy after a pass of physics.
        now = [*chain(*[arm.ik.q.tolist() for arm in self._arms.values()])]
        if self._others:
            now += qpos[self._others].tolist()
        ways = zip(now, self._seen, self._moves, strict=True)
        if sum([abs(after - before) * lever for after, before, lever in ways]) < self._slack:
            return  # no barrier stood at the last look, and none has come in reach since
        links, barriers, speed = self._links, self._barriers, 0.0
        links.place(qpos)
        for side, arm in self._arms.items():
            barriers[side].clear()
            links.data.qpos[self._qpos_at[side]] = arm.ik.q
            way = zip(arm.ik.velocity.tolist(), self._levers[side], strict=True)
            speed = max(speed, sum(abs(step) * lever for step, lever in way) / arm.tick_time)
        self._seen, self._slack = now, _ROOM
        for k in np.flatnonzero(links.bounds() < self._search).tolist():
            self._look(k, speed + _SUDDEN)
        for side, arm in self._arms.items():
            arm.ik.barriers.set(barriers[side])

    def _look(self, k: int, closing: float) -> None:
        """Add a pair's barriers, if they matter to arms of ``closing`` [m/s]."""
        pair, rate, full = self._links.pairs[k], self._rates[k], self._full[k]
        distance, segment = self._links.distance(pair.a, pair.b, full + _ROOM)
        self._slack = min(self._slack, distance - full)
        if distance >= min(full, pair.margin.least + closing / rate):
            return
        self._add(pair, pair.a, pair.b, distance, segment, rate)
        most = pair.margin.least + CORNERS
        if distance >= most:
            return
        for a, b in pair.corners:
            distance, segment = self._links.distance(a, b, most)
            if distance < most:
                self._add(pair, a, b, distance, segment, rate)

    def _add(
        self, pair: Pair, a: int, b: int, distance: float, segment: list[float], rate: float
    ) -> None:
        """Add barriers for the nearest points, ``segment`` (6,), of geoms a and b."""
        if abs(distance) < _TOUCHING:
            return
        radius_a, radius_b = self._cores[a], self._cores[b]
        ends = list(zip(segment[:3], segment[3:], strict=True))
        direction = [(there - here) / distance for here, there in ends]
        point_a = [here - radius_a * n for (here, _), n in zip(ends, direction, strict=True)]
        point_b = [there + radius_b * n for (_, there), n in zip(ends, direction, strict=True)]
        least = pair.margin.least + radius_a + radius_b
        for side in pair.sides:
            body_a, local_a = self._on_arm(side, a, point_a)
            body_b, local_b = self._on_arm(side, b, point_b)
            away = np.array(direction)
            if body_a:
                barrier = Barrier(body_a, local_a, body_b, local_b, away, least, rate)
            else:
                barrier = Barrier(body_b, local_b, 0, local_a, -away, least, rate)
            self._barriers[side].append(barrier)

    def _carrier(self, geom: int) -> tuple[Side | None, int, int]:
        """Return the arm that moves a geom, and the body of it: here and in the IK's model."""
        model = self._links.model
        body = int(model.geom_bodyid[geom])
        for side, arm in self._arms.items():
            if model.body(body).name.startswith(side.prefix):
                while body in self._links.fingers:
                    body = int(model.body_parentid[body])
                return side, body, arm.ik.carrier(model.body(body).name)
        return None, 0, 0

    def _on_arm(self, side: Side, geom: int, point: list[float]) -> tuple[int, Array]:
        """Return the IK's body that carries a geom and where ``point`` (3,) of world is in it.

        0, the world, unless the arm ``side`` moves it.
        """
        owner, body, found = self._carriers[geom]
        if owner is not side or not found:
            return 0, np.array(point)
        data, local, place = self._links.data, np.zeros(3), np.array(point)
        mujoco.mju_subFrom3(place, data.xpos[body])
        mujoco.mju_mulMatTVec3(local, data.xmat[body], place)
        return found, local


def _core(model: mujoco.MjModel, geom: int) -> float:
    """Return how thick [m] a geom lies around its core, round which a turn leaves it as it is."""
    round_ones = (int(mujoco.mjtGeom.mjGEOM_CAPSULE), int(mujoco.mjtGeom.mjGEOM_SPHERE))
    return float(model.geom_size[geom, 0]) if int(model.geom_type[geom]) in round_ones else 0.0
