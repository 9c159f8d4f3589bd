"""What ``doctor`` says of the computer."""

from collections import namedtuple
from pathlib import Path

import pytest

from teleop_agent import computer
from teleop_agent.computer import check_disk, check_pictures, check_python, check_timer
from teleop_agent.findings import Level

Usage = namedtuple("Usage", "total used free")


@pytest.mark.parametrize(
    ("version", "level"),
    [((3, 10), Level.WARNING), ((3, 11), Level.OK), ((3, 13), Level.OK), ((3, 14), Level.WARNING)],
)
def test_python(version: tuple[int, int], level: Level) -> None:
    assert check_python(version).level is level


def test_pictures_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    assert check_pictures().level is Level.OK
    monkeypatch.setenv("MUJOCO_GL", "crayon")
    finding = check_pictures()
    assert finding.level is Level.WARNING
    assert "crayon" in finding.found
    assert "no picture within" in check_pictures(timeout_s=0.01).found


@pytest.mark.parametrize(
    ("free", "level"),
    [(10**8, Level.FAULT), (10**9, Level.WARNING), (10**11, Level.OK)],
)
def test_disk(free: int, level: Level, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []

    def usage(path: Path) -> Usage:
        asked.append(path)
        return Usage(0, 0, free)

    monkeypatch.setattr(computer.shutil, "disk_usage", usage)
    finding = check_disk(tmp_path / "not" / "there é")
    assert finding.level is level
    assert asked == [tmp_path]
    assert bool(finding.fix) is (level is not Level.OK)


def test_a_disk_that_cannot_be_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> None:
        raise PermissionError("no")

    monkeypatch.setattr(computer.shutil, "disk_usage", refuse)
    assert check_disk(tmp_path).level is Level.FAULT


def test_the_timer_is_measured() -> None:
    assert "ms late" in check_timer(waits=5).found
