"""Make episodes of what a crash has left in the journals."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import schema
from .compiled import model_path
from .draft import Draft
from .errors import EpisodesError, FileFormatError
from .journal import SYNC_S, journals, read_journal
from .master import Master, episode_files
from .reader import open_episode
from .run import Run, RunSpec
from .writer import save_episode

LIVE_S = 5.0 * SYNC_S
"""A journal that was touched so recently is still being written: a recorder does so every
``SYNC_S``."""


@dataclass(frozen=True, slots=True)
class Repaired:
    """Say what became of one journal."""

    journal: str
    episodes: tuple[str, ...]
    """Files that were made of it."""
    rows: int
    """In them."""
    note: str = ""
    """Why there are none, or why the journal is still there."""
    kept: bool = False
    """The journal is still there, for another try."""


def repair(folder: Path | str) -> list[Repaired]:
    """Turn all journals in a run's folder, or in all runs below a folder, into episodes.

    A journal is removed once its episodes are in place. Raises FileFormatError when there is no
    such folder.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileFormatError(f"{folder} is no folder; give a run's folder or one above runs")
    runs = {
        path.parent.parent
        for path in folder.rglob(f"{schema.EPISODES_DIR}/*{schema.JOURNAL_SUFFIX}")
    }
    return [_repair(run, path) for run in sorted(runs) for path in journals(run)]


def left_by_crashes(folder: Path) -> list[Path]:
    """Return the journals that nobody writes any more, in the runs directly in a folder."""
    found = folder.glob(f"*/{schema.EPISODES_DIR}/*{schema.JOURNAL_SUFFIX}")
    return sorted(path for path in found if not _is_live(path))


def _is_live(path: Path) -> bool:
    return time.time() - path.stat().st_mtime < LIVE_S


def _repair(folder: Path, path: Path) -> Repaired:
    try:
        if _is_live(path):
            note = f"is being written, or was until {LIVE_S:g} s ago: try again when it is not"
            return Repaired(str(path), (), 0, note, kept=True)
        drafts = read_journal(path)
        made = list(_save(folder, drafts)) if drafts else []
        path.unlink(missing_ok=True)
    except (EpisodesError, OSError) as error:
        return Repaired(str(path), (), 0, str(error), kept=True)
    rows = sum(len(draft.rows) for draft in drafts)
    if not drafts:
        return Repaired(str(path), (), 0, "held no row")
    if not made:
        return Repaired(str(path), (), 0, "its episodes are in the run already")
    return Repaired(str(path), tuple(str(file) for file in made), rows)


def _save(folder: Path, drafts: list[Draft]) -> Iterator[Path]:
    info = drafts[0].info
    stored = model_path(folder, info.model_sha256)
    if not stored.exists():
        raise FileFormatError(f"{stored} is missing; put the run's folder together again")
    run = Run.open(folder, RunSpec.of(info))
    known = set(_known(folder))
    for draft in drafts:
        if _key(draft) not in known:
            yield save_episode(run, draft)
    Master(folder).rebuild()


def _known(folder: Path) -> Iterator[tuple[object, ...]]:
    """Say which attempts are saved already: the journal was left just before it was removed."""
    deleted = (folder / schema.DELETED_DIR).glob(f"*{schema.SUFFIX}")
    for file in (*episode_files(folder), *deleted):
        try:
            episode = open_episode(file)
            attrs, times = episode.attrs, episode.array(schema.T_OBS)
        except EpisodesError:
            continue
        yield attrs.get("attempt_id"), attrs.get("seed"), attrs.get("branch_row"), int(times[0])


def _key(draft: Draft) -> tuple[object, ...]:
    info = draft.info
    return info.attempt_id, info.seed, info.branch_row, draft.rows[0].t_obs_ns
