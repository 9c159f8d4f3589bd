"""The journal of a running episode: what a crash leaves to make an episode of.

Every row is on its way to the disk as soon as it is recorded, in a thread of its own: a slow disk
does not hold up the control loop. After a ``kill -9`` all that was written is there, after a power
cut all but the last second. An entry is its length, its CRC-32 and a pickle, of which only this
package's records are ever loaded: a journal from elsewhere can do nothing.
"""

import io
import os
import pickle
import queue
import struct
import threading
import time
import uuid
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from kinematics import Side
from kinematics.edits import ModelEdits

from . import schema
from .compiled import CompiledModel
from .disk import sync_folder
from .draft import Draft
from .errors import FileFormatError, RecordError, WriteError
from .records import (
    EpisodeInfo,
    EpisodeResult,
    HandRecord,
    Outcome,
    RawDevice,
    RawFrame,
    StepRecord,
)

SYNC_S = 1.0
"""Longest time that recorded rows are only in the system's memory."""
_FRAME = struct.Struct("<II")
"""Length and CRC-32 of what follows."""


def _magic() -> bytes:
    return f"picopanda journal, schema {schema.SCHEMA_VERSION}\n".encode()


class Journal:
    """Write what is recorded of one attempt; use it from one thread.

    When the thread meets an error it is kept in ``error``, and no more is written.
    """

    def __init__(self, run_folder: Path, info: EpisodeInfo, model: CompiledModel) -> None:
        """Begin a journal beside the run's episodes; returns at once."""
        name = f"{uuid.uuid4().hex}{schema.JOURNAL_SUFFIX}"
        self.path = run_folder / schema.EPISODES_DIR / name
        self.error: WriteError | None = None
        """Why no more is written."""
        self.told = False
        """The error was raised somewhere."""
        self.owed = 0
        """Saves that must succeed before the journal has done its work."""
        self._model = model
        self._queue: queue.SimpleQueue[tuple[Any, ...] | None] = queue.SimpleQueue()
        self._queue.put(("info", info))
        self._thread = threading.Thread(target=self._work, name="episode-journal")
        self._thread.start()

    def row(self, row: StepRecord) -> None:
        """Take one row."""
        self._queue.put(("row", row))

    def raw(self, frames: Iterable[RawFrame]) -> None:
        """Take device samples."""
        self._queue.put(("raw", list(frames)))

    def rewind(self, first: int, result: EpisodeResult) -> None:
        """Note that the rows from ``first`` on became a branch."""
        self._queue.put(("rewind", first, result))

    def finish(self, result: EpisodeResult) -> None:
        """Note how the episode ended, and end the thread."""
        self._queue.put(("finish", result))
        self._queue.put(None)

    def settle(self) -> None:
        """Note that one of the saves owed is in place; after the last the journal goes."""
        self.owed -= 1
        if self.owed <= 0:
            self.remove()

    def close(self) -> None:
        """Write what was taken and end the thread; the file stays. Twice is fine."""
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()

    def remove(self) -> None:
        """End the thread and remove the file."""
        self.close()
        self.path.unlink(missing_ok=True)

    def _work(self) -> None:
        try:
            self._model.store(self.path.parent.parent)
            with self.path.open("xb", buffering=0) as file:  # a killed process loses no buffer
                file.write(_magic())
                self._follow(file)
        except Exception as error:  # whatever a thread meets must reach the main thread
            self.error = WriteError(
                f"the running episode's journal {self.path} cannot be written: {error}; free "
                "space or mend the folder"
            )
            self.error.__cause__ = error

    def _follow(self, file: io.FileIO) -> None:
        synced, entry = 0.0, self._queue.get()
        while True:
            if entry is not None:
                payload = pickle.dumps(entry, protocol=5)
                file.write(_FRAME.pack(len(payload), zlib.crc32(payload)) + payload)
            now = time.monotonic()
            if now - synced >= SYNC_S:
                os.fsync(file.fileno())
                os.utime(self.path)  # a sign of life, also when no rows come
                if synced == 0.0:
                    sync_folder(self.path.parent)
                synced = time.monotonic()
            try:
                entry = self._queue.get(timeout=SYNC_S)
            except queue.Empty:
                entry = None
                continue
            if entry is None:
                return


def journals(run_folder: Path) -> list[Path]:
    """Return the journals in a run's folder, of running episodes too."""
    return sorted((run_folder / schema.EPISODES_DIR).glob(f"*{schema.JOURNAL_SUFFIX}"))


def read_journal(path: Path) -> list[Draft]:
    """Return what a journal holds, the episode first and then its branches, all ended.

    A torn end is left out. An episode without an end is ended as an interrupted failure where its
    last row begins: what came of that row is not known. Raises FileFormatError.
    """
    entries = _entries(path)
    first = next(entries, None)
    if first is None or first[0] != "info":
        raise FileFormatError(f"{path} holds no episode: it was cut off at its beginning")
    draft, branches, ended = Draft(first[1]), [], False
    try:
        for kind, *values in entries:
            match kind:
                case "row":
                    draft.append(values[0])
                case "raw":
                    draft.raw.extend(values[0])
                case "rewind":
                    branches.append(draft.cut(values[0]))
                    branches[-1].end(values[1])
                case "finish":
                    draft.end(values[0])
                    ended = True
                case _:
                    raise FileFormatError(f"{path} has an entry of unknown kind {kind!r}")
    except RecordError as error:
        raise FileFormatError(f"{path} does not fit together: {error}") from error
    if not ended and draft.rows:
        _end_early(draft)
    return [found for found in (draft, *branches) if found.rows]


def _end_early(draft: Draft) -> None:
    last = draft.rows.pop()
    draft.end(
        EpisodeResult(
            success=bool(draft.rows) and draft.rows[-1].success,
            outcome=Outcome.FAILURE,
            state_final=last.state,
            interrupted=True,
            reason="crash",
            late_ticks=sum(row.late for row in draft.rows),
            observation_final=last.observation,
        )
    )


def _entries(path: Path) -> Iterator[tuple[Any, ...]]:
    content, at = path.read_bytes(), len(_magic())
    if content[:at] != _magic():
        word = content.partition(b"\n")[0][:60]
        raise FileFormatError(
            f"{path} begins with {word!r} instead of {_magic().strip()!r}: it is no journal, or "
            "one of another version, with which it can be repaired"
        )
    while at + _FRAME.size <= len(content):
        length, crc = _FRAME.unpack_from(content, at)
        at += _FRAME.size
        payload = content[at : at + length]
        if len(payload) < length or zlib.crc32(payload) != crc:
            return
        at += length
        yield _load(path, payload)


def _load(path: Path, payload: bytes) -> tuple[Any, ...]:
    try:
        return _RecordsOnly(io.BytesIO(payload)).load()
    except Exception as error:  # a pickle may raise anything
        raise FileFormatError(f"{path} has an entry that is no record: {error}") from error


class _RecordsOnly(pickle.Unpickler):
    """Load records and arrays, and refuse everything else that a pickle can name."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _NAMES:
            raise pickle.UnpicklingError(f"{module}.{name} does not belong into a journal")
        return super().find_class(module, name)


_RECORDS = (
    EpisodeInfo,
    EpisodeResult,
    HandRecord,
    ModelEdits,
    Outcome,
    RawDevice,
    RawFrame,
    Side,
    StepRecord,
)
_NAMES = {(kind.__module__, kind.__qualname__) for kind in _RECORDS} | {
    ("numpy", "ndarray"),
    ("numpy", "dtype"),
    ("numpy._core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "scalar"),
    ("numpy._core.numeric", "_frombuffer"),
}
