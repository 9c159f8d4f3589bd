"""Left and right, as one value."""

from enum import StrEnum


class Side(StrEnum):
    """Name an arm or a hand of the operator.

    The order of definition is the order of arms everywhere: robot0 is right, robot1 left.
    """

    RIGHT = "right"
    LEFT = "left"

    @property
    def prefix(self) -> str:
        """Return the prefix of the side's names in a composed MuJoCo model, such as ``right/``."""
        return f"{self.value}/"

    @property
    def other(self) -> "Side":
        """Return the opposite side."""
        return Side.LEFT if self is Side.RIGHT else Side.RIGHT
