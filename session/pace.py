"""When a tick is due, whether it is late, and the wait for the next."""

from teleop_agent.clock import Clock

STALL_PERIODS = 5
"""Up to this many periods of delay are made up for by ticks in quick succession."""


class Pace:
    """Keep ticks at absolute deadlines, a period apart."""

    def __init__(self, clock: Clock, period_ns: int) -> None:
        self._clock, self._period_ns = clock, period_ns
        self._deadline_ns = 0
        self.late = False
        """Whether the tick began more than half a period after its deadline."""

    def start(self) -> None:
        """Make the first tick due now."""
        self._deadline_ns = self._clock.now_ns()

    def begin(self) -> int:
        """Begin a tick and return its instant [ns]."""
        now = self._clock.now_ns()
        self.late = 2 * (now - self._deadline_ns) > self._period_ns
        return now

    def wait(self) -> None:
        """Wait for the next deadline; after a long stall begin anew instead of catching up."""
        self._deadline_ns += self._period_ns
        behind = self._clock.now_ns() - self._deadline_ns
        if behind > STALL_PERIODS * self._period_ns:
            self._deadline_ns += behind
        self._clock.sleep_until(self._deadline_ns)
