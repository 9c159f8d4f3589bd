"""A device whose source is polled by a thread of its own."""

import logging
import threading
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from typing import ClassVar, Protocol

from kinematics import Side

from ..clock import RealClock
from ..errors import DeviceClosedError, DeviceFailedError, RuntimeUnavailableError, TeleopError
from ..frame import OperatorFrame
from .base import VIBRATION_NS, Device

_log = logging.getLogger(__name__)

_SECOND_NS = 1_000_000_000
OPEN_TIMEOUT_S = 20.0
"""A runtime that has not answered by then hangs; SteamVR answers a background program at once."""
JOIN_TIMEOUT_S = 5.0
"""Many times one poll; a thread that takes longer is stuck in a call of the runtime."""


class FrameSource(Protocol):
    """Read a source; made, used and closed in the reader thread alone."""

    def poll(self) -> OperatorFrame | None:
        """Return one new sample, or None once the source has ended."""
        ...

    def vibrate(self, strengths: Mapping[Side, float]) -> None:
        """Let controllers vibrate until the next poll, at strengths above 0, up to 1."""
        ...

    def close(self) -> None:
        """Release the source."""
        ...


class FrameRing:
    """Keep the newest frames between the thread that writes and the one that reads."""

    def __init__(self, size: int) -> None:
        self._frames: deque[OperatorFrame] = deque()
        self._size = size
        self._lock = threading.Lock()
        self.overflow = 0
        """How many frames were dropped, oldest first, because the ring was full."""

    def put(self, frame: OperatorFrame) -> None:
        """Append ``frame``; the oldest one gives way."""
        with self._lock:
            if len(self._frames) == self._size:
                self._frames.popleft()
                self.overflow += 1
            self._frames.append(frame)

    def take(self, now_ns: int) -> list[OperatorFrame]:
        """Remove and return the frames received up to ``now_ns`` [ns], oldest first."""
        taken: list[OperatorFrame] = []
        with self._lock:
            while self._frames and self._frames[0].t_recv_ns <= now_ns:
                taken.append(self._frames.popleft())
        return taken

    def __len__(self) -> int:
        return len(self._frames)


class Reader:
    """Poll one connection of a source from a thread, at absolute deadlines."""

    def __init__(
        self, name: str, open_source: Callable[[], FrameSource], poll_hz: int, ring_frames: int
    ) -> None:
        self.name = name
        self.ring = FrameRing(ring_frames)
        self.ended = False
        """The thread will put no more frames into the ring."""
        self.failure: Exception | None = None
        """What stopped the thread once the source was open."""
        self._open_failure: Exception | None = None
        self._open_source = open_source
        self._poll_hz = poll_hz
        self._clock = RealClock()
        self._opened = threading.Event()
        self._stop = threading.Event()
        self._vibration: tuple[int, Mapping[Side, float]] = (0, {})
        # A daemon, though always joined: a runtime that hangs in a call must not keep the
        # process from ending.
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread and return once the source is open; raise what opening it raised."""
        self._thread.start()
        waited_until = self._clock.now_ns() + int(OPEN_TIMEOUT_S * _SECOND_NS)
        try:
            # In slices, so that Ctrl-C gets through on every system.
            while not self._opened.wait(0.1):
                if self._clock.now_ns() > waited_until:
                    raise RuntimeUnavailableError(
                        f"{self.name} did not answer within {OPEN_TIMEOUT_S:g} s: restart it"
                    )
        except BaseException:
            self._stop.set()
            raise
        if self._open_failure is not None:
            self._thread.join()
            raise self._open_failure

    def stop(self) -> None:
        """Ask the thread to end and wait for it."""
        self._stop.set()
        self._thread.join(JOIN_TIMEOUT_S)
        if self._thread.is_alive():
            _log.error(
                "%s: its thread did not end within %g s; the runtime hangs",
                self.name,
                JOIN_TIMEOUT_S,
            )

    def vibrate(self, strengths: Mapping[Side, float]) -> None:
        """Take the strengths of the vibrations from now on."""
        self._vibration = (self._clock.now_ns(), dict(strengths))  # newest wins, in one assignment

    def _felt(self) -> Mapping[Side, float]:
        t_ns, strengths = self._vibration
        if self._clock.now_ns() - t_ns > VIBRATION_NS:
            return {}
        return {side: strength for side, strength in strengths.items() if strength > 0.0}

    def _run(self) -> None:
        # Whatever goes wrong, whoever connects or reads the device must learn of it.
        try:
            source = self._open_source()
        except Exception as error:
            self._open_failure = error
            return
        finally:
            self._opened.set()
        try:
            try:
                self._poll(source)
            finally:
                source.close()
        except Exception as error:
            self.failure = error
        finally:
            self.ended = True

    def _poll(self, source: FrameSource) -> None:
        start_ns = self._clock.now_ns()
        while not self._stop.is_set():
            frame = source.poll()
            if frame is None:
                return
            self.ring.put(frame)
            if strengths := self._felt():
                source.vibrate(strengths)
            # The next point of a fixed grid: a late poll skips points, it moves none. Sleeping
            # is `time.sleep`, which on Windows is finer than waiting for an event.
            ticks = (self._clock.now_ns() - start_ns) * self._poll_hz // _SECOND_NS + 1
            self._clock.sleep_until(start_ns + ticks * _SECOND_NS // self._poll_hz)


class ThreadedDevice(Device):
    """Serve the frames that a thread polls; times are of the real clock."""

    realtime: ClassVar[bool] = True

    def __init__(self, name: str, poll_hz: int, ring_frames: int) -> None:
        self._name = name
        self._poll_hz = poll_hz
        self._ring_frames = ring_frames
        self._reader: Reader | None = None

    @abstractmethod
    def _open(self) -> FrameSource:
        """Open the source; called in the reader thread."""

    def connect(self) -> None:
        """Start the thread and wait until it has opened the source."""
        if self._reader is not None:
            raise TeleopError(f"{self._name} is already connected: close() it first")
        reader = Reader(self._name, self._open, self._poll_hz, self._ring_frames)
        reader.start()
        self._reader = reader

    def read(self, now_ns: int) -> list[OperatorFrame]:
        """Return the frames up to ``now_ns`` [ns, real clock]; see ``Device.read``.

        What the thread polled before it ended or failed is returned before that is raised.
        """
        reader = self._reader
        if reader is None:
            raise DeviceClosedError(f"{self._name} is not connected: call connect() first")
        ended = reader.ended  # asked first: a frame put in between is then taken by this call
        frames = reader.ring.take(now_ns)
        if ended and not frames and not len(reader.ring):
            if reader.failure is not None:
                raise DeviceFailedError(
                    f"reading {self._name} failed: {reader.failure!r}; connect again"
                ) from reader.failure
            raise DeviceClosedError(f"{self._name} has ended")
        return frames

    def vibrate(self, strengths: Mapping[Side, float]) -> None:
        """Let the thread pass them on; see ``Device.vibrate``."""
        if self._reader is not None:
            self._reader.vibrate(strengths)

    def close(self) -> None:
        """Stop and join the thread, which closes the source; calling it twice is fine."""
        if self._reader is not None:
            self._reader.stop()
            self._reader = None

    @property
    def overflow(self) -> int:
        """Return how many frames of this connection were dropped because nobody read them."""
        return 0 if self._reader is None else self._reader.ring.overflow
