"""Record episodes: the main thread gathers rows in memory, the writer thread makes files."""

from collections.abc import Iterable
from types import TracebackType

from .compiled import CompiledModel
from .draft import Draft
from .errors import RecordError, RunError, WriteError
from .journal import Journal
from .records import EpisodeInfo, EpisodeResult, RawFrame, StepRecord
from .run import Run, RunSpec
from .writer import Job, Removal, Save, Writer


class Recorder:
    """Turn rows into files; use it as a context manager, or close it.

    What the writer thread meets is raised, once, by the next call here (but ``finish``, which
    returns the new save whatever became of older ones), after that call has done its own work: a
    failed save never costs a row of the running episode.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self._writer = Writer(run)
        self._draft: Draft | None = None
        self._branches: list[Draft] = []
        self._model: CompiledModel | None = None
        self._journal: Journal | None = None
        self._closed = False

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def recording(self) -> bool:
        """An episode is running."""
        return self._draft is not None

    @property
    def n_rows(self) -> int:
        """Rows of the running episode."""
        return len(self._draft.rows) if self._draft else 0

    @property
    def failed(self) -> tuple[Job, ...]:
        """What failed; episodes to be saved are in memory and ``retry`` tries them again."""
        return self._writer.failed

    def start(self, info: EpisodeInfo, model: CompiledModel) -> None:
        """Begin an episode on the compiled model; its rows go into memory and a journal."""
        if self._closed:
            raise RecordError("the recorder is closed; open another one")
        if self._draft is not None:
            raise RecordError("an episode is running; finish() or discard() it first")
        if model.sha256 != info.model_sha256:
            raise RecordError(
                f"model_sha256 {info.model_sha256} is not that of the given model, {model.sha256}"
            )
        differences = self.run.spec.differences(RunSpec.of(info))
        if differences:
            raise RunError(
                f"{self.run.folder} takes no such episode: {'; '.join(differences)}. "
                "Open a run of its own for it"
            )
        self._draft, self._model, self._branches = Draft(info), model, []
        self._journal = Journal(self.run.folder, info, model)
        self._raise_error()

    def append(self, row: StepRecord) -> None:
        """Take one row; RecordError when it does not fit the episode."""
        self._running("append").append(row)
        self._log().row(row)
        self._raise_error()

    def raw(self, frames: Iterable[RawFrame]) -> None:
        """Take device samples, at the device's own rate."""
        frames = list(frames)
        self._running("raw").raw.extend(frames)
        self._log().raw(frames)
        self._raise_error()

    def rewind(self, first: int, result: EpisodeResult) -> None:
        """Take the rows from ``first`` on away, as a branch that is saved with the episode.

        ``result`` says how the branch ended.
        """
        branch = self._running("rewind").cut(first)
        branch.end(result)
        self._branches.append(branch)
        self._log().rewind(first, result)

    def finish(self, result: EpisodeResult) -> Save | None:
        """End the episode and hand it to the writer; None, and no file, when it has no rows.

        Its branches follow it, as files of their own.
        """
        draft = self._running("finish")
        draft.end(result)
        self._draft = None
        journal, model = self._log(), self._model
        journal.finish(result)
        saves = [Save(d, model, journal) for d in (draft, *self._branches) if d.rows and model]
        journal.owed = len(saves)
        if not saves:
            journal.remove()
        for save in saves:
            self._writer.put(save)
        if not draft.rows:
            return None
        saves[0].branches = saves[1:]
        return saves[0]

    def take_back(self, save: Save) -> Removal:
        """Move a saved episode and its branches out of the run, into its ``deleted`` folder."""
        removal = Removal([save, *save.branches])
        self._writer.put(removal)
        return removal

    def discard(self) -> None:
        """Forget the running episode and its branches; its number goes to the next one."""
        if self._draft is not None:
            self._draft = None
            self._log().remove()
        self._raise_error()

    def retry(self) -> list[Job]:
        """Try all that failed again, after space was freed or the folder mended."""
        return self._writer.retry()

    def close(self) -> None:
        """Save all that was finished; raise WriteError if a save failed.

        Failed saves get one more attempt; what still fails, and a running episode, are left in
        their journals. Closing twice is fine.
        """
        if self._closed:
            return
        running, self._draft, self._closed = self._draft, None, True
        self._writer.retry()
        self._writer.close()
        if running is not None:
            self._log().close() if running.rows else self._log().remove()
        failed = self._writer.failed
        for job in failed:
            if isinstance(job, Save):
                job.journal.close()
        if failed:
            raise WriteError("\n".join(str(job.error) for job in failed)) from failed[0].error

    def _raise_error(self) -> None:
        """Raise what the writer or the journal has met and nobody was told of yet."""
        self._writer.raise_error()
        journal = self._journal
        if journal is not None and journal.error is not None and not journal.told:
            journal.told = True
            raise journal.error

    def _log(self) -> Journal:
        assert self._journal is not None  # since start()
        return self._journal

    def _running(self, call: str) -> Draft:
        if self._draft is None:
            raise RecordError(f"no episode is running; start() one before {call}()")
        return self._draft
