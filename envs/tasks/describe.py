"""Tell in words what a task asks for: the text of docs/tasks.md."""

import inspect

from .base import Task


def describe(task: type[Task]) -> str:
    """Return one section in Markdown, from what the class says of itself."""
    arms = "one arm" if task.n_arms == 1 else f"{task.n_arms} arms"
    steps = " ".join(f"`{name}`" for name in task.subtask_names)
    return f"""### `{task.name}`

{task.instruction}

- Success: {_plain(task.__doc__)} For {task.hold_s:g} s on end, within {task.time_limit_s:g} s.
- Reset: {_plain(task.reset.__doc__)}
- Subtasks, {arms}: {steps}
"""


def _plain(doc: str | None) -> str:
    """Return a docstring as one line."""
    return " ".join(inspect.cleandoc(doc or "").split())
