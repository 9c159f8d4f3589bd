"""docs/tasks.md speaks of the tasks that there are, as they are."""

import re
from pathlib import Path

import pytest

from envs.tasks import TASKS
from envs.tasks.describe import describe

PAGE = Path(__file__).parents[2] / "docs" / "tasks.md"
FIX = "run: python benchmarks/operator_success.py --write --task "


@pytest.mark.parametrize("task", TASKS)
def test_the_page_describes_each_task(task: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert describe(TASKS[task]) in page, FIX + task
    row = re.search(rf"^\| `{task}` \| \d+ of \d+ \|.*\| \d{{4}}-\d\d-\d\d \|$", page, re.MULTILINE)
    assert row, FIX + task


def test_a_description_says_all_that_counts() -> None:
    text = describe(TASKS["place"])
    for word in ("`place`", TASKS["place"].instruction, "For 0.5 s on end", "`in_bin`", "any yaw"):
        assert word in text
