"""The writer thread: the only owner of open HDF5 files while a session records."""

import logging
import queue
import threading
from dataclasses import dataclass, field
from pathlib import Path

from .columns import Column, attributes, columns
from .compiled import CompiledModel
from .disk import replace_durably
from .draft import Draft
from .errors import WriteError
from .master import Master
from .run import Run
from .schema import demo_name
from .storage import check_file, write_file

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Save:
    """Follow one episode on its way to the disk; the episode stays in memory until it is there."""

    draft: Draft | None
    model: CompiledModel
    path: Path | None = None
    """The episode's file, once it is in place."""
    error: WriteError | None = None
    """Why the last attempt failed."""
    told: bool = False
    """The error was raised somewhere."""
    _ended: threading.Event = field(default_factory=threading.Event)

    @property
    def ended(self) -> bool:
        """The last attempt is over, well or not."""
        return self._ended.is_set()

    def wait(self, timeout_s: float | None = None) -> Path:
        """Return the file's path once it is in place; raise WriteError when the save failed."""
        if not self._ended.wait(timeout_s):
            raise WriteError(f"the episode is still being saved after {timeout_s} s; wait longer")
        if self.error is not None:
            self.told = True
            raise self.error
        if self.path is None:
            raise WriteError("the episode was not saved; close() the recorder to see why")
        return self.path

    def attempt(self, run: Run, master: Master) -> None:
        """Save now, in this thread; an error is kept in ``error``."""
        try:
            if self.draft is not None:
                self.model.store(run.folder)
                self.path = save_episode(run, self.draft)
                self.draft = None
            master.rebuild()
        except Exception as error:  # whatever a thread meets must reach the main thread
            self.error = self._explained(error, run)
            logger.error("%s", self.error)
        self._ended.set()

    def again(self) -> None:
        """Make ready for another attempt."""
        self.error, self.told = None, False
        self._ended.clear()

    def _explained(self, error: Exception, run: Run) -> WriteError:
        if self.draft is None:
            text = (
                f"{self.path} is saved, but the run's master file was not rebuilt: {error}; "
                "close programs that hold it open, then retry(); the next save also rebuilds it"
            )
        else:
            text = (
                f"an episode of {len(self.draft.rows)} rows was not saved in "
                f"{run.episodes_folder}: {error}; it is kept in memory: free space or mend the "
                "folder, then retry()"
            )
        explained = WriteError(text)
        explained.__cause__ = error
        return explained


def save_episode(run: Run, draft: Draft) -> Path:
    """Write, check and put in place one episode; nothing of a failed attempt stays."""
    found = columns(draft)
    attrs = attributes(draft)
    number = run.next_number()
    while True:
        partial, final = run.paths(number)
        try:
            write_file(partial, demo_name(number), attrs, found)
        except FileExistsError:
            number += 1  # another recorder took it between the look and the write
            continue
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        if not final.exists():
            break
        partial.unlink()
        number += 1
    _check_and_place(partial, final, demo_name(number), attrs, found)
    return final


def _check_and_place(
    partial: Path, final: Path, name: str, attrs: dict[str, object], found: list[Column]
) -> None:
    try:
        check_file(partial, name, attrs, found)
        replace_durably(partial, final)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


class Writer:
    """Save episodes one after another in a thread of its own."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._master = Master(run.folder)
        self._queue: queue.SimpleQueue[Save | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._failed: list[Save] = []
        self._thread = threading.Thread(target=self._work, name="episode-writer")
        self._thread.start()

    @property
    def failed(self) -> tuple[Save, ...]:
        """Return the saves whose last attempt failed; their episodes are still in memory."""
        with self._lock:
            return tuple(self._failed)

    def put(self, save: Save) -> None:
        """Take an ended episode; returns at once."""
        self._queue.put(save)

    def raise_error(self) -> None:
        """Raise the oldest error that was not raised yet."""
        for save in self.failed:
            if save.error is not None and not save.told:
                save.told = True
                raise save.error

    def retry(self) -> list[Save]:
        """Try all failed saves again."""
        with self._lock:
            again, self._failed = self._failed, []
        for save in again:
            save.again()
            self.put(save)
        return again

    def close(self) -> None:
        """Finish what is queued and end the thread; twice is fine."""
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()

    def _work(self) -> None:
        while (save := self._queue.get()) is not None:
            save.attempt(self._run, self._master)
            if save.error is not None:
                with self._lock:
                    self._failed.append(save)
