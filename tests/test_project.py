"""Rules that hold for the whole project and that no single package can check."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
ROOMS = {  # package: the packages that it may import
    "kinematics": set(),
    "envs": {"kinematics"},
    "teleop_agent": {"kinematics"},
    "episodes": {"kinematics"},
    "session": {"kinematics", "envs", "teleop_agent", "episodes"},
}
PACKAGES = sorted({name.partition(".")[0] for name in PROJECT["tool"]["setuptools"]["packages"]})
SOURCES = sorted(path for name in ROOMS for path in (ROOT / name).rglob("*.py"))
FRAMES = ROOT / "kinematics" / "frames.py"
SPEAKING = ("__main__.py", "commands.py", "collector.py")
"""Commands, and the operator's status line."""


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def imports(path: Path) -> Iterator[str]:
    """Yield what a file imports, wherever in it: full names; relative ones are of its package."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module
        elif isinstance(node, ast.ImportFrom) and node.level > 0:
            assert node.level <= len(path.relative_to(ROOT).parts) - 1, f"{named(path)}: too far up"


def test_the_rooms_are_the_packages() -> None:
    assert sorted(ROOMS) == PACKAGES
    assert sorted(PROJECT["tool"]["importlinter"]["root_packages"]) == PACKAGES
    listed = {name.replace(".", "/") for name in PROJECT["tool"]["setuptools"]["packages"]}
    assert {named(path.parent) for path in SOURCES} == listed


@pytest.mark.parametrize("path", SOURCES, ids=named)
def test_a_room_imports_only_rooms_below_it(path: Path) -> None:
    room = path.relative_to(ROOT).parts[0]
    foreign = {name.partition(".")[0] for name in imports(path)}
    ours = (foreign & {*ROOMS, "collect", "tests", "benchmarks", "examples"}) - {room}
    assert ours <= ROOMS[room], f"{named(path)} must not import {ours - ROOMS[room]}"
    assert room not in foreign or path.name == "__main__.py", f"{named(path)}: import relatively"


@pytest.mark.parametrize("folder", ["models", "datasets"])
def test_data_folders_hold_no_python(folder: str) -> None:
    assert not list((ROOT / folder).rglob("*.py"))


def test_quaternions_are_wxyz() -> None:
    for path in SOURCES:
        text = path.read_text("utf-8")
        assert "xyzw" not in text.replace("wxyz", ""), named(path)
        if path != FRAMES:  # scipy's own order is met at one place only
            assert not re.search(r"\b(as_quat|from_quat)\(", text), f"{named(path)}: use frames"


def test_no_module_that_is_run_hides_one_of_the_standard_library() -> None:
    hiding = {named(path) for path in SOURCES if path.stem in sys.stdlib_module_names}
    assert not hiding


def test_only_commands_print() -> None:
    for path in SOURCES:
        if path.name in SPEAKING:
            continue
        nodes = ast.walk(ast.parse(path.read_text("utf-8")))
        calls = [node.func for node in nodes if isinstance(node, ast.Call)]
        names = [call.id for call in calls if isinstance(call, ast.Name)]
        assert "print" not in names, f"{named(path)}: use logging"


def test_a_state_only_program_loads_no_device_and_no_window() -> None:
    code = (
        "import sys, collect\n"
        "from teleop_agent.devices import make_device\n"
        "make_device('sim')\n"
        "print([n for n in ('openvr', 'matplotlib', 'OpenGL', 'glfw') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "openvr" not in done.stdout
    assert "matplotlib" not in done.stdout


def bash_lines(text: str) -> list[str]:
    return [
        line
        for block in re.findall(r"```bash\n(.*?)```", text, re.S)
        for line in block.splitlines()
    ]


def test_readme_holds_its_two_commands_for_both_shells() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    install = "python3 -m venv .venv && .venv/bin/python -m pip install -e ."
    collect = ".venv/bin/python collect.py --task pick --device sim --episodes 1 --no-viewer"
    tests = '.venv/bin/python -m pip install -e ".[test]" && .venv/bin/python -m pytest'
    assert bash_lines(text) == [f"{install} && {collect}", tests]
    (powershell,) = re.findall(r"```powershell\n(.*?)```", text, re.S)
    for part in ("-m pip install -e .", "collect.py --task pick --device sim", "-m pytest"):
        assert part in powershell


DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("path", DOCUMENTS, ids=named)
def test_links_between_files_lead_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)\)?", path.read_text("utf-8"))
    broken = [
        link
        for link in links
        if not re.match(r"[a-z]+:", link) and not (path.parent / link).exists()
    ]
    assert not broken


@pytest.mark.parametrize("path", DOCUMENTS, ids=named)
def test_commands_in_documents_exist(path: Path) -> None:
    text = path.read_text("utf-8")
    for module in re.findall(r"python -m (\w+)", text):
        known = module in ("pip", "pytest", "venv") or (ROOT / module / "__main__.py").exists()
        assert known, f"{named(path)} speaks of python -m {module}"
    for script in re.findall(r"python (\S+\.py)", text):
        assert "<" in script or (ROOT / script).exists(), f"{named(path)} speaks of {script}"


def test_supported_versions_agree() -> None:
    project = PROJECT["project"]
    assert project["requires-python"] == ">=3.11"
    assert "Private :: Do Not Upload" in project["classifiers"]
    mujoco = next(line for line in project["dependencies"] if line.startswith("mujoco"))
    assert mujoco.endswith(",<4"), "the wrist cycles at rest in 4.0"
    versions = [c.rpartition(" ")[2] for c in project["classifiers"] if c.count("::") == 2]
    versions = [v for v in versions if re.fullmatch(r"3\.\d+", v)]
    readme = (ROOT / "README.md").read_text("utf-8")
    assert f"Python {versions[0]} to {versions[-1]}" in readme
