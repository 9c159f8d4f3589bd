"""Check a run's folder: its master, its models and what was left behind."""

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import h5py

from . import schema
from .compiled import read_model
from .errors import EpisodesError, FileFormatError
from .hdf5 import array_at, attrs_of, group_at
from .journal import journals
from .master import episode_files, partial_files
from .reader import Episode, open_run
from .verify import Fault, verify_episode


def verify(path: Path | str) -> list[Fault]:
    """Return all faults of an episode's file, a master or a run's folder."""
    path = Path(path)
    if not path.is_dir():
        return [fault for episode in open_run(path) for fault in verify_episode(episode)]
    episodes: list[Episode] = []
    faults: list[Fault] = []
    for file in episode_files(path):
        try:
            episodes.extend(open_run(file))
        except EpisodesError as error:
            faults.append(Fault(str(file), str(error)))
    if not episodes and not faults:
        open_run(path)  # says what a run's folder is
    for episode in episodes:
        faults.extend(verify_episode(episode))
        if episode.path.stem != episode.name:
            faults.append(Fault(str(episode), f"must be in {episode.name}{schema.SUFFIX}"))
    return [*faults, *_models(episodes), *_master(path, episodes)]


def leftovers(folder: Path) -> list[Path]:
    """Return what crashes left: partial files and journals, no fault of the finished episodes."""
    return [*partial_files(folder), *journals(folder)] if folder.is_dir() else []


def _models(episodes: list[Episode]) -> Iterator[Fault]:
    for path in sorted({episode.model_file for episode in episodes}):
        if not path.exists():
            yield Fault(str(path), "is missing; state replay and re-rendering need it")
            continue
        try:
            read_model(path)
        except (OSError, FileFormatError) as error:
            yield Fault(str(path), str(error))


def _master(folder: Path, episodes: list[Episode]) -> Iterator[Fault]:
    path = folder / schema.MASTER
    if not path.exists():
        yield Fault(str(path), "is missing; the next recording here makes it again")
        return
    try:
        with h5py.File(path, "r") as file:
            yield from _links(path, group_at(file, schema.DATA), episodes)
            yield from _masks(path, file, {episode.name for episode in episodes})
            total = attrs_of(group_at(file, schema.DATA)).get("total")
    except (OSError, FileFormatError) as error:
        yield Fault(str(path), str(error))
        return
    rows = sum(episode.n_rows for episode in episodes)
    if total != rows:
        yield Fault(f"{path}:/{schema.DATA}", f"attribute total is {total}, the rows are {rows}")


def _links(path: Path, data: h5py.Group, episodes: list[Episode]) -> Iterator[Fault]:
    names = {str(name) for name in data}
    for episode in episodes:
        if episode.name not in names:
            yield Fault(f"{path}:/{schema.DATA}/{episode.name}", "is not linked")
    for name in sorted(names):
        where, link = f"{path}:/{schema.DATA}/{name}", data.get(name, getlink=True)
        if not isinstance(link, h5py.ExternalLink):
            yield Fault(where, "is not a link to an episode's file")
            continue
        target = PurePosixPath(link.filename)
        if target.is_absolute() or target.parts[:-1] != (schema.EPISODES_DIR,):
            yield Fault(where, f"links to {link.filename}, outside {schema.EPISODES_DIR}/")
        elif not (path.parent / link.filename).exists():
            yield Fault(where, f"links to {link.filename}, which is not there")


def _masks(path: Path, file: h5py.File, names: set[str]) -> Iterator[Fault]:
    for mask in schema.MASKS:
        members = {bytes(item).decode() for item in array_at(file, f"{schema.MASK}/{mask}")}
        if not members <= names:
            where = f"{path}:/{schema.MASK}/{mask}"
            yield Fault(where, f"names {sorted(members - names)}, which are not there")
