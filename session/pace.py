"""When a tick is due, how late it begins, and the wait for the next."""

from episodes.timing import MADE_UP_PERIODS
from teleop_agent.clock import Clock


class Pace:
    """Keep ticks at absolute deadlines, a period apart.

    A short delay is made up for by ticks in quick succession. After a longer one the deadlines
    begin anew: the simulation has stood still for that time, and the tick that finds out is late
    by it.
    """

    def __init__(self, clock: Clock, period_ns: int) -> None:
        self._clock, self._period_ns = clock, period_ns
        self._base_ns = 0
        """What the next deadline follows."""
        self.due_ns = 0
        """When the present tick was due."""
        self.late = False
        """Whether it began more than half a period after that."""

    def start(self) -> None:
        """Make the first tick due now."""
        self.due_ns = self._clock.now_ns()

    def begin(self) -> int:
        """Begin a tick and return its instant [ns]."""
        now = self._clock.now_ns()
        behind = now - self.due_ns
        self.late = 2 * behind > self._period_ns
        self._base_ns = now if behind > MADE_UP_PERIODS * self._period_ns else self.due_ns
        return now

    def wait(self) -> None:
        """Wait until the next tick is due."""
        self.due_ns = self._base_ns + self._period_ns
        self._clock.sleep_until(self.due_ns)
