"""Which MuJoCo this is for, told on import, before anything fails for want of it."""

import re

REQUIREMENT = "mujoco>=3.17,<4"
"""4.0.0 has a wrong sparse factorisation. 4.0.1 leaves out the implicit damping of a servo at its
joint's torque limit: after a hard stop the wrist then goes to and fro between its limits of 12 Nm
for good (``tests/models/test_panda.py``, the hard stops)."""
_REPAIR = f'python -m pip install --upgrade --force-reinstall "{REQUIREMENT}"'


def require(version: str) -> None:
    """Raise ImportError, with the command that mends it, unless a MuJoCo version will do."""
    numbers = [int(part) for part in re.findall(r"\d+", version)[:3]]
    if not [3, 17] <= numbers < [4]:
        raise ImportError(f"MuJoCo {version} will not do, {REQUIREMENT} is needed: {_REPAIR}")


def _require_installed() -> None:
    """Raise ImportError, with the command that mends it, unless MuJoCo is whole and will do.

    Going from 3.x to 4.x or back in place can leave an installation that does not import.
    """
    try:
        import mujoco

        version = mujoco.__version__
    except (ImportError, AttributeError) as error:
        raise ImportError(f"MuJoCo does not import ({error}); mend it with: {_REPAIR}") from error
    require(version)


_require_installed()
