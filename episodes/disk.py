"""Put files in place so that a crash at any moment leaves the old or the new one, whole."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def sync(path: Path) -> None:
    """Wait until the file's content is on the disk."""
    handle = os.open(path, os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_folder(folder: Path) -> None:
    """Wait until the folder's entries are on the disk, where the system can do that."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_durably(source: Path, target: Path) -> None:
    """Rename ``source`` to ``target`` in one step, after syncing what it holds."""
    sync(source)
    source.replace(target)
    sync_folder(target.parent)


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """Yield a path of its own beside ``target``; what is written there takes its place at the end.

    When the block fails, ``target`` is as it was and nothing of the attempt stays.
    """
    partial = target.with_name(f"{target.name}.{uuid.uuid4().hex[:8]}.partial")
    try:
        yield partial
        replace_durably(partial, target)
    finally:
        partial.unlink(missing_ok=True)
