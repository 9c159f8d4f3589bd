"""The one interface of all input devices."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import ClassVar, Self

from kinematics import EndEffectorTarget, Side, Waypoint

from ..frame import OperatorFrame

VIBRATION_NS = 100_000_000
"""Two control steps at the slowest rate: a program that stalls does not leave hands shaking."""


@dataclass(frozen=True, slots=True, eq=False)
class SceneView:
    """What a person at the table sees; only the simulated operator looks.

    Sides are those of the hands: with swapped hands the right hand's tool is the left arm's.
    """

    t_ns: int
    """Session clock [ns]."""
    tools: Mapping[Side, EndEffectorTarget]
    """Measured tool poses in world and measured gripper closure."""
    engaged: Mapping[Side, bool]
    """Whether each hand's clutch is engaged, as cued to the operator."""
    waypoints: Sequence[Waypoint]
    """What remains to be done, next first; empty once the task is done."""
    running: bool
    """False between episodes."""


class Device(ABC):
    """Produce ``OperatorFrame``s; a context manager, usable again after ``close``."""

    realtime: ClassVar[bool]
    """Whether frames come by the wall clock, whatever the reader does."""
    has_eyes: ClassVar[bool] = False
    """Whether the device wants to be shown the scene: only a simulated operator does."""

    @abstractmethod
    def connect(self) -> None:
        """Open the source; raise RuntimeUnavailableError if it is not there (yet)."""

    @abstractmethod
    def read(self, now_ns: int) -> list[OperatorFrame]:
        """Return all frames received up to ``now_ns`` and not returned before, oldest first.

        Never blocks. Raises DeviceClosedError once the source has ended and every frame has been
        returned, and any error of the device's thread.
        """

    @abstractmethod
    def close(self) -> None:
        """Release the source and join the thread; calling it twice is fine."""

    @property
    def overflow(self) -> int:
        """Return how many frames were dropped because nobody read them in time."""
        return 0

    def watch(self, view: SceneView) -> None:  # noqa: B027  (a device without eyes ignores it)
        """Show the scene to the device; only a simulated operator has eyes."""

    def vibrate(self, strengths: Mapping[Side, float]) -> None:  # noqa: B027
        """Let each controller vibrate at a strength, 0 .. 1, until the next call.

        To be called every control step: what is not renewed within ``VIBRATION_NS`` ends by itself.
        Never waits. A device whose controllers cannot vibrate ignores it.
        """

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
