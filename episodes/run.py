"""A run's folder: which episodes it takes, and which number comes next."""

import json
import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py

from . import schema
from .disk import replacing
from .errors import FileFormatError, RunError
from .hdf5 import attr, attrs_of, group_at
from .master import demo_of, episode_files, episode_number, partial_files
from .records import EpisodeInfo

logger = logging.getLogger(__name__)

_LOOKS_ONLY = ("render_mode",)
"""Environment arguments that change nothing that is recorded."""


@dataclass(frozen=True, slots=True)
class RunSpec:
    """Hold what all episodes of a run have in common."""

    task: str
    control_hz: int
    env_spec_json: str
    schema_version: int = schema.SCHEMA_VERSION

    @classmethod
    def of(cls, info: EpisodeInfo) -> "RunSpec":
        """Take the run's part out of an episode's info."""
        return cls(info.task, info.control_hz, info.env_spec_json)

    def differences(self, other: "RunSpec") -> list[str]:
        """Return in words where ``other`` differs, empty when it fits."""
        pairs = {
            name: (getattr(self, name), getattr(other, name))
            for name in ("schema_version", "task", "control_hz")
        }
        mine, theirs = _flat(self.env_spec_json), _flat(other.env_spec_json)
        for key in sorted(mine.keys() | theirs.keys()):
            pairs[f"environment {key}"] = (mine.get(key), theirs.get(key))
        return [
            f"{name} is {here!r} in the folder, {there!r} now"
            for name, (here, there) in pairs.items()
            if here != there
        ]


class Run:
    """Hold an open run folder; finished episodes in it are never touched."""

    def __init__(self, folder: Path, spec: RunSpec) -> None:
        """Use ``Run.open``."""
        self.folder = folder
        self.spec = spec

    @classmethod
    def open(cls, folder: Path | str, spec: RunSpec) -> "Run":
        """Open or create a run's folder for more episodes.

        Raises RunError when the folder holds episodes of another task, rate, environment or
        schema, or cannot be written.
        """
        folder = Path(folder)
        try:
            (folder / schema.EPISODES_DIR).mkdir(parents=True, exist_ok=True)
            known = read_spec(folder)
            if not (folder / schema.RUN_JSON).exists():
                _write_spec(folder, known or spec)
            _probe(folder / schema.EPISODES_DIR)
        except OSError as error:
            raise RunError(
                f"{folder} cannot be written: {error}; choose another folder or mend its rights"
            ) from error
        differences = known.differences(spec) if known else []
        if differences:
            raise RunError(
                f"{folder} takes no such episodes: {'; '.join(differences)}. "
                "Choose another folder for them"
            )
        run = cls(folder, spec)
        for path in run.partial_files():
            logger.warning("%s was left by an interrupted save; it is not an episode", path)
        return run

    @property
    def episodes_folder(self) -> Path:
        """Return where the episodes' files are."""
        return self.folder / schema.EPISODES_DIR

    def episode_files(self) -> list[Path]:
        """Return the finished episodes' files, in numeric order."""
        return episode_files(self.folder)

    def partial_files(self) -> list[Path]:
        """Return what interrupted saves left behind; it is reported, never removed or reused."""
        return partial_files(self.folder)

    def next_number(self) -> int:
        """Return one more than any number in use, also by partial and deleted files."""
        deleted = self.folder / schema.DELETED_DIR
        paths = [*self.episodes_folder.iterdir(), *(deleted.iterdir() if deleted.exists() else ())]
        used = (episode_number(path) for path in paths)
        return max((number for number in used if number is not None), default=-1) + 1

    def move_out(self, path: Path) -> Path:
        """Move an episode's file into the folder of deleted ones: out of the run, but not lost."""
        target = self.folder / schema.DELETED_DIR / path.name
        target.parent.mkdir(exist_ok=True)
        return path.replace(target)

    def paths(self, number: int) -> tuple[Path, Path]:
        """Return the partial and the final path of an episode's file."""
        stem = self.episodes_folder / schema.demo_name(number)
        return (
            stem.with_name(stem.name + schema.PARTIAL_SUFFIX),
            stem.with_name(stem.name + schema.SUFFIX),
        )


def read_spec(folder: Path) -> RunSpec | None:
    """Return what a folder's episodes have in common, None while there is nothing in it."""
    path = folder / schema.RUN_JSON
    if path.exists():
        try:
            stored = json.loads(path.read_text(encoding="utf-8"))
            return RunSpec(
                task=stored["task"],
                control_hz=stored["control_hz"],
                env_spec_json=json.dumps(stored["env_spec"]),
                schema_version=stored["schema_version"],
            )
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(
                f"{path} is damaged ({error!r}); remove it, it is made again from the episodes"
            ) from error
    files = episode_files(folder)
    return _spec_of_file(files[-1]) if files else None


def _spec_of_file(path: Path) -> RunSpec:
    try:
        with h5py.File(path, "r") as file:
            attrs = attrs_of(group_at(file, f"{schema.DATA}/{demo_of(file, path)}"))
            return RunSpec(
                task=attr(attrs, "task", str, path),
                control_hz=attr(attrs, "control_hz", int, path),
                env_spec_json=attr(attrs, "env_spec", str, path),
                schema_version=attr(attrs, "schema_version", int, path),
            )
    except (OSError, FileFormatError) as error:
        raise RunError(
            f"{path} does not say what the run records ({error}); move it away or choose "
            "another folder"
        ) from error


def _write_spec(folder: Path, spec: RunSpec) -> None:
    content = {
        "schema_version": spec.schema_version,
        "task": spec.task,
        "control_hz": spec.control_hz,
        "env_spec": json.loads(spec.env_spec_json),
    }
    with replacing(folder / schema.RUN_JSON) as partial:
        partial.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _probe(folder: Path) -> None:
    probe = folder / f".probe.{os.getpid()}"
    probe.write_bytes(b"")
    probe.unlink()


def _flat(env_spec_json: str) -> dict[str, Any]:
    spec = dict(json.loads(env_spec_json))
    kwargs = spec.pop("kwargs", None) or {}
    flat = {f"argument {key}": value for key, value in kwargs.items() if key not in _LOOKS_ONLY}
    return {**spec, **flat}
