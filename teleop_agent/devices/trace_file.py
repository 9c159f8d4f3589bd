"""Recording what a device publishes, and a device that publishes a recording."""

import contextlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from ..clock import Clock
from ..errors import DeviceClosedError, TraceError
from ..frame import OperatorFrame
from .base import Device
from .trace_format import check_header, decode_frame, encode_frame, encode_header, is_whole

_log = logging.getLogger(__name__)

_SECOND_NS = 1_000_000_000


class TraceWriter:
    """Write frames to a new file, each at once: a killed program loses at most the last line."""

    def __init__(self, path: Path, device: str) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _unwritable(path, error) from error
        try:
            # Line buffered, and the same bytes on every system.
            self._file = path.open("x", buffering=1, encoding="utf-8", newline="\n")
        except FileExistsError as error:
            raise TraceError(
                f"{path} exists and is not overwritten: choose another name"
            ) from error
        except OSError as error:
            raise _unwritable(path, error) from error
        self._path = path
        self._append(encode_header(device))

    def write(self, frame: OperatorFrame) -> None:
        """Append one frame."""
        self._append(encode_frame(frame))

    def close(self) -> None:
        """Close the file; calling it twice is fine."""
        self._file.close()

    def _append(self, line: str) -> None:
        try:
            self._file.write(line + "\n")
        except OSError as error:
            raise _unwritable(self._path, error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _unwritable(path: Path, error: OSError) -> TraceError:
    return TraceError(
        f"{path} cannot be written: {error.strerror}; free space or choose another folder"
    )


def record_trace(
    device: Device,
    path: Path,
    clock: Clock,
    *,
    name: str,
    seconds: float,
    read_hz: int = 50,
    stopped: Callable[[], bool] = lambda: False,
) -> int:
    """Write what the connected ``device``, called ``name``, publishes; return how many frames.

    Ends after ``seconds`` of ``clock``, with the device's stream, or once ``stopped``. ``read_hz``
    is how often the device is emptied [1/s]; it changes nothing in the file.
    """
    count = 0
    end_ns = clock.now_ns() + seconds * _SECOND_NS
    with TraceWriter(path, name) as writer, contextlib.suppress(DeviceClosedError):
        while (now_ns := clock.now_ns()) <= end_ns and not stopped():
            for frame in device.read(now_ns):
                writer.write(frame)
                count += 1
            clock.sleep_until(now_ns + _SECOND_NS // read_hz)
    return count


def read_trace(path: Path) -> list[OperatorFrame]:
    """Return all frames of a trace, checked, with the times of its recording [ns].

    Raises TraceError with file and line for anything that is not a trace in order: ``seq`` grows
    (a gap is a frame that was dropped), ``t_recv_ns`` never falls.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise TraceError(f"cannot read trace {path}: {error.strerror}") from error
    last_line = lines.pop()  # what follows the last newline: nothing, or a line cut short
    if last_line and lines and not is_whole(last_line):
        _log.warning("%s, line %d: cut short, left out", path, len(lines) + 1)
    elif last_line or not lines:
        lines.append(last_line)
    frames = list(_frames(path, lines))
    if not frames:
        raise TraceError(f"{path} holds no frames: record it again")
    return frames


def _frames(path: Path, lines: list[bytes]) -> Iterator[OperatorFrame]:
    last: OperatorFrame | None = None
    for number, line in enumerate(lines, start=1):
        try:
            if number == 1:
                check_header(line)
                continue
            frame = decode_frame(line)
            _check_order(last, frame)
        except TraceError as error:
            raise TraceError(f"{path}, line {number}: {error}") from error
        last = frame
        yield frame


def _check_order(last: OperatorFrame | None, frame: OperatorFrame) -> None:
    if last is None:
        return
    if frame.seq <= last.seq:
        raise TraceError(f"seq must grow, got {frame.seq} after {last.seq}")
    if frame.t_recv_ns < last.t_recv_ns:
        raise TraceError(f"t_recv_ns must not fall, got {frame.t_recv_ns} after {last.t_recv_ns}")


class TraceDevice(Device):
    """Publish the frames of a trace on the session's clock, real or virtual.

    All times are shifted alike, so that the first frame arrives at the first read. The whole file
    is read and checked by ``connect``.
    """

    realtime: ClassVar[bool] = False

    def __init__(self, path: Path) -> None:
        self._path = path
        self._frames: list[OperatorFrame] | None = None
        self._next = 0
        self._shift_ns: int | None = None

    def connect(self) -> None:
        """Read the file; raise TraceError if it is not a trace."""
        self._frames = read_trace(self._path)
        self._next = 0
        self._shift_ns = None

    def read(self, now_ns: int) -> list[OperatorFrame]:
        """Return the frames up to ``now_ns`` [ns]; see ``Device.read``."""
        frames = self._frames
        if frames is None:
            raise DeviceClosedError(f"trace {self._path} is not open: call connect() first")
        if self._next == len(frames):
            raise DeviceClosedError(f"trace {self._path} is over after {len(frames)} frames")
        if self._shift_ns is None:
            self._shift_ns = now_ns - frames[0].t_recv_ns
        due: list[OperatorFrame] = []
        while self._next < len(frames):
            frame = _shifted(frames[self._next], self._shift_ns)
            if frame.t_recv_ns > now_ns:
                break
            due.append(frame)
            self._next += 1
        return due

    def close(self) -> None:
        """Forget the frames; calling it twice is fine."""
        self._frames = None


def _shifted(frame: OperatorFrame, shift_ns: int) -> OperatorFrame:
    return replace(
        frame,
        t_device_ns=frame.t_device_ns + shift_ns,
        t_recv_ns=frame.t_recv_ns + shift_ns,
    )
