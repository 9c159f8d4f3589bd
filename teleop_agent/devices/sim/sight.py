"""What a simulated person has seen so far: the scene, a reaction time ago."""

from collections import deque

from ..base import SceneView


class EpisodeOverError(Exception):
    """Say that the episode is over, whatever the person was about to do."""


class Sight:
    """Keep views until they have been noticed: one pair of eyes for both hands."""

    def __init__(self, reaction_ns: int) -> None:
        self._reaction_ns = reaction_ns
        self._coming: deque[SceneView] = deque()
        self._stopped_ns: int | None = None
        """When an episode was last seen not to run; never overlooked, however short."""
        self._began_ns = 0
        self.t_ns = 0
        """Now [ns]."""
        self.seen: SceneView | None = None

    def watch(self, view: SceneView) -> None:
        """Take in what is to be seen now."""
        self._coming.append(view)

    def advance(self, t_ns: int) -> None:
        """Let it be ``t_ns``: ``seen`` is the newest view that is a reaction time old."""
        self.t_ns = t_ns
        while self._coming and self._coming[0].t_ns <= t_ns - self._reaction_ns:
            self.seen = self._coming.popleft()
            if not self.seen.running:
                self._stopped_ns = self.seen.t_ns

    def begin(self) -> None:
        """Begin to work on an episode: from now on only its own end counts."""
        self._began_ns = self.t_ns

    def running(self) -> SceneView:
        """Return what is seen of a running episode; raise EpisodeOverError once it is over."""
        view, stopped_ns = self.seen, self._stopped_ns
        if view is None or not view.running:
            raise EpisodeOverError
        if stopped_ns is not None and stopped_ns > self._began_ns - self._reaction_ns:
            raise EpisodeOverError
        return view
