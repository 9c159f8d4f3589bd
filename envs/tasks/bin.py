"""A bin, and when something lies in it."""

import mujoco

from kinematics.frames import Array
from kinematics.names import named_id

from .things import Fixture, FreeObject


class Bin(Fixture):
    """Address one ``models/bin`` in a scene."""

    def __init__(self, model: mujoco.MjModel, body: str) -> None:
        """``body``: its name in the model, such as ``task/bin``."""
        super().__init__(model, body)
        prefix = body.removesuffix("bin")
        geom = mujoco.mjtObj.mjOBJ_GEOM
        self._wall = named_id(model, geom, prefix + "bin_front")
        self._floor = named_id(model, geom, prefix + "bin_floor")

    @property
    def half_width(self) -> float:
        """Return half the inner edge [m]."""
        geom, size = self._wall, self.model.geom_size
        return float(abs(self.model.geom_pos[geom, 0]) - size[geom, 0])

    @property
    def floor(self) -> float:
        """Return the height of what things lie on in it, over the table [m]."""
        geom = self._floor
        return float(self.model.geom_pos[geom, 2] + self.model.geom_size[geom, 2])

    @property
    def rim(self) -> float:
        """Return the walls' height over the table [m]."""
        return float(self.model.geom_pos[self._wall, 2] + self.model.geom_size[self._wall, 2])

    def holds(self, data: mujoco.MjData, thing: FreeObject) -> bool:
        """Return whether the object is between the walls and lower than their rim.

        Its centre between them and under the rim: what lies across the rim has its centre above.
        """
        local = self.local(data, thing.position(data))
        inside = max(abs(local[0]), abs(local[1])) < self.half_width
        return bool(inside and 0.0 < local[2] < self.rim)

    def catches(self, data: mujoco.MjData, thing: FreeObject) -> bool:
        """Return whether the object is in the bin or, let go now, falls into it."""
        local = self.local(data, thing.position(data))
        inside = max(abs(local[0]), abs(local[1])) < self.half_width - 0.01
        return bool(inside and 0.0 < local[2] < self.rim + 0.03)

    def drop_point(self, data: mujoco.MjData, slot: float = 0.0) -> Array:
        """Return where an object's centre should be let go, (3,) [m], world.

        ``slot``: aside of the bin's middle, along its x [m]. 12 mm over the rim: the finger tips
        end 8 mm below, and so may open over a wall.
        """
        point = self.world(data, (slot, 0.0, 0.0))
        point[2] = self.rim + 0.012
        return point
