"""The run's master file: links to every episode, and the masks; rebuilt at any time."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py

from . import schema
from .disk import replacing
from .errors import FileFormatError
from .hdf5 import attr, attrs_of, group_at
from .storage import new_file, write_collection

logger = logging.getLogger(__name__)

_SUMMARY = {"num_samples": int, "outcome": str, "interrupted": bool, "env_args": str}


def episode_number(path: Path) -> int | None:
    """Return the number of an episode's file, whole or partial; None for any other file."""
    for suffix in (schema.PARTIAL_SUFFIX, schema.SUFFIX):
        if path.name.endswith(suffix):
            return schema.demo_number(path.name.removesuffix(suffix))
    return None


def episode_files(run_folder: Path) -> list[Path]:
    """Return the run's finished episode files, in numeric order."""
    found = [
        (number, path)
        for path in (run_folder / schema.EPISODES_DIR).glob(f"*{schema.SUFFIX}")
        if (number := episode_number(path)) is not None
    ]
    return [path for _, path in sorted(found)]


def partial_files(run_folder: Path) -> list[Path]:
    """Return what interrupted saves left behind: half an episode, model or master."""
    places = (run_folder / schema.EPISODES_DIR, run_folder / schema.MODELS_DIR, run_folder)
    found = [path for place in places for path in place.glob("*.partial")]
    return sorted(found, key=lambda path: (path.parent, episode_number(path) or 0, path.name))


def demo_of(file: h5py.File, path: Path) -> str:
    """Return the name of the one demo that an episode's file holds."""
    data = group_at(file, schema.DATA)
    names = [name for name in map(str, data) if schema.demo_number(name) is not None]
    if len(names) != 1:
        raise FileFormatError(f"{path} must hold one /data/demo_N, it holds {names}")
    return names[0]


class Master:
    """Rebuild ``dataset.hdf5`` beside the old one and put it in its place."""

    def __init__(self, run_folder: Path) -> None:
        self._folder = run_folder
        self._known: dict[Path, tuple[tuple[int, int], str, dict[str, Any]]] = {}

    def rebuild(self) -> Path:
        """Link every readable episode file; those that are not are logged and left out."""
        while True:
            files = episode_files(self._folder)
            target = self._write(files)
            if files == episode_files(self._folder):  # else another recorder added one meanwhile
                return target

    def _write(self, files: list[Path]) -> Path:
        demos: dict[str, Mapping[str, Any]] = {}
        links: dict[str, Path] = {}
        for path in files:
            try:
                name, summary = self._summary(path)
            except (OSError, FileFormatError) as error:
                logger.warning("%s is left out of %s: %s", path, schema.MASTER, error)
                continue
            demos[name], links[name] = summary, path
        target = self._folder / schema.MASTER
        with replacing(target) as partial, new_file(partial) as file:
            data = file.create_group(schema.DATA)
            for name, path in links.items():
                relative = f"{schema.EPISODES_DIR}/{path.name}"
                data[name] = h5py.ExternalLink(relative, f"/{schema.DATA}/{name}")
            write_collection(file, demos)
        return target

    def _summary(self, path: Path) -> tuple[str, dict[str, Any]]:
        stat = path.stat()
        stamp = (stat.st_mtime_ns, stat.st_size)
        if path not in self._known or self._known[path][0] != stamp:
            with h5py.File(path, "r") as file:
                name = demo_of(file, path)
                attrs = attrs_of(group_at(file, f"{schema.DATA}/{name}"))
                if attrs.get(schema.COMPLETE) != 1:
                    raise FileFormatError(f"{path} was not written to its end")
                summary = {key: attr(attrs, key, kind, path) for key, kind in _SUMMARY.items()}
                self._known[path] = (stamp, name, summary)
        _, name, summary = self._known[path]
        return name, summary
