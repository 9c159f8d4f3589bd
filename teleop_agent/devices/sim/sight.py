"""What a simulated person has seen so far: the scene, a reaction time ago."""

from collections import deque

from ..base import SceneView


class Sight:
    """Keep views until they have been noticed."""

    def __init__(self, reaction_ns: int) -> None:
        self.reaction_ns = reaction_ns
        self._coming: deque[SceneView] = deque()
        self.seen: SceneView | None = None
        self.stopped_ns: int | None = None
        """When an episode was last seen not to run; never overlooked, however short."""

    def watch(self, view: SceneView) -> None:
        """Take in what is to be seen now."""
        self._coming.append(view)

    def advance(self, t_ns: int) -> None:
        """Let ``seen`` be the newest view that is a reaction time old at ``t_ns``."""
        while self._coming and self._coming[0].t_ns <= t_ns - self.reaction_ns:
            self.seen = self._coming.popleft()
            if not self.seen.running:
                self.stopped_ns = self.seen.t_ns
