"""The writer thread: the only owner of open HDF5 files while a session records."""

import logging
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path

from .columns import Column, attributes, columns
from .compiled import CompiledModel
from .disk import replace_durably
from .draft import Draft
from .errors import WriteError
from .journal import Journal
from .master import Master
from .quality import Quality
from .run import Run
from .schema import demo_name
from .storage import check_file, write_file

logger = logging.getLogger(__name__)


class Job(ABC):
    """Follow one piece of the writer's work."""

    def __init__(self) -> None:
        self.path: Path | None = None
        """The episode's file, once it is in place."""
        self.error: WriteError | None = None
        """Why the last attempt failed."""
        self.told = False
        """The error was raised somewhere."""
        self._ended = threading.Event()

    @property
    def ended(self) -> bool:
        """The last attempt is over, well or not."""
        return self._ended.is_set()

    def wait(self, timeout_s: float | None = None) -> Path:
        """Return ``path`` once it is done; raise WriteError when it failed."""
        if not self._ended.wait(timeout_s):
            raise WriteError(f"{self} is still under way after {timeout_s} s; wait longer")
        if self.error is not None:
            self.told = True
            raise self.error
        if self.path is None:
            raise WriteError(f"{self} was not done; close() the recorder to see why")
        return self.path

    def attempt(self, run: Run, master: Master) -> None:
        """Do it now, in this thread; an error is kept in ``error``."""
        try:
            self._do(run)
            master.rebuild()
        except Exception as error:  # whatever a thread meets must reach the main thread
            self.error = WriteError(self._explain(error, run))
            self.error.__cause__ = error
            logger.error("%s", self.error)
        self._ended.set()

    def again(self) -> None:
        """Make ready for another attempt."""
        self.error, self.told = None, False
        self._ended.clear()

    @abstractmethod
    def _do(self, run: Run) -> None: ...

    @abstractmethod
    def _explain(self, error: Exception, run: Run) -> str: ...


class Save(Job):
    """Follow one episode on its way to the disk; the episode stays in memory until it is there."""

    def __init__(self, draft: Draft, model: CompiledModel, journal: Journal) -> None:
        super().__init__()
        self.draft: Draft | None = draft
        self._model, self.journal = model, journal
        self.quality: Quality | None = None
        """How well it was done, once the file is in place."""
        self.branches: list[Save] = []
        """Of what rewinding cut off it."""

    def __str__(self) -> str:
        return "the save of an episode"

    def _do(self, run: Run) -> None:
        if self.draft is not None:
            self._model.store(run.folder)
            self.path = save_episode(run, self.draft)
            self.quality = self.draft.quality
            self.draft = None
            self.journal.settle()

    def _explain(self, error: Exception, run: Run) -> str:
        if self.draft is None:
            return (
                f"{self.path} is saved, but the run's master file was not rebuilt: {error}; "
                "close programs that hold it open, then retry(); the next save also rebuilds it"
            )
        return (
            f"an episode of {len(self.draft.rows)} rows was not saved in "
            f"{run.episodes_folder}: {error}; it is kept in memory, and in {self.journal.path} "
            "as far as there was room: free space or mend the folder, then retry(), or "
            "`python -m episodes repair` once this program has ended"
        )


class Removal(Job):
    """Follow saved episodes on their way out of the run, into its folder of deleted ones."""

    def __init__(self, saves: Sequence[Save]) -> None:
        super().__init__()
        self._left = list(saves)

    def __str__(self) -> str:
        return f"taking back {', '.join(str(save.path) for save in self._left)}"

    def _do(self, run: Run) -> None:
        while self._left:
            path = self._left[-1].path
            if path is not None:  # else it never came to be a file
                self.path = run.move_out(path)
            self._left.pop()

    def _explain(self, error: Exception, run: Run) -> str:
        return f"{self} failed: {error}; close programs that hold the file open, then retry()"


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
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._failed: list[Job] = []
        self._thread = threading.Thread(target=self._work, name="episode-writer")
        self._thread.start()

    @property
    def failed(self) -> tuple[Job, ...]:
        """Return what failed in its last attempt; episodes to be saved are still in memory."""
        with self._lock:
            return tuple(self._failed)

    def put(self, job: Job) -> None:
        """Take a job; returns at once."""
        self._queue.put(job)

    def raise_error(self) -> None:
        """Raise the oldest error that was not raised yet."""
        for job in self.failed:
            if job.error is not None and not job.told:
                job.told = True
                raise job.error

    def retry(self) -> list[Job]:
        """Try all that failed again."""
        with self._lock:
            again, self._failed = self._failed, []
        for job in again:
            job.again()
            self.put(job)
        return again

    def close(self) -> None:
        """Finish what is queued and end the thread; twice is fine."""
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join()

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            job.attempt(self._run, self._master)
            if job.error is not None:
                with self._lock:
                    self._failed.append(job)
