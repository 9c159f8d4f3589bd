"""What a simulated person intends: which episodes to work on, and when one is done."""

import contextlib
from collections.abc import Mapping, Sequence

from kinematics import Side

from ...frame import Button
from .acts import Act, Actor
from .intent import Intent, MindConfig
from .sight import EpisodeOverError, Sight
from .stroke import SECOND_NS


class SimMind:
    """Work with both hands until nothing is left to do, say so, and rest.

    The hands act at the same time, each by its own intent, on what one pair of eyes sees.
    """

    def __init__(
        self, sight: Sight, actors: Mapping[Side, Actor], yaw: float, config: MindConfig
    ) -> None:
        """``yaw``: true facing, left of tracking's -z [rad]."""
        self._sight, self._actors = sight, actors
        self._intents = [Intent(actor, yaw, config) for actor in actors.values()]
        self._script = self._live()
        self.episodes = 0
        """How many it has begun to work on."""

    def advance(self, t_ns: int) -> None:
        """Live on to ``t_ns``."""
        self._sight.advance(t_ns)
        next(self._script)

    def _live(self) -> Act:
        sight, actors = self._sight, list(self._actors.values())
        begin_ns = -1
        while True:
            while not self._asked_since(begin_ns):
                yield
            self.episodes += 1
            sight.begin()
            with contextlib.suppress(EpisodeOverError):
                yield from self._work()
                yield from self._actors[Side.RIGHT].tap(Button.SECONDARY)
            begin_ns = sight.t_ns
            yield from together([actor.relax() for actor in actors])
            yield from together([actor.go_to_rest() for actor in actors])

    def _asked_since(self, begin_ns: int) -> bool:
        view = self._sight.seen
        return view is not None and view.t_ns > begin_ns and view.running and bool(view.waypoints)

    def _work(self) -> Act:
        """Let each hand do what is to be done by it, until nothing is, for a moment.

        At a boundary something may come back.
        """
        sight, works = self._sight, [intent.work() for intent in self._intents]
        assurance_ns = round(self._assurance_s * SECOND_NS)
        busy_ns = sight.t_ns
        while sight.t_ns < busy_ns + assurance_ns:
            for work in works:
                next(work)
            if sight.running().waypoints or not all(intent.idle for intent in self._intents):
                busy_ns = sight.t_ns
            yield

    @property
    def _assurance_s(self) -> float:
        return self._actors[Side.RIGHT].config.assurance_s


def together(acts: Sequence[Act]) -> Act:
    """Act with several hands at once until each is through."""
    going = list(acts)
    while going := [act for act in going if next(act, _THROUGH) is None]:
        yield


_THROUGH = object()
