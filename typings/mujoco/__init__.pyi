# MuJoCo ships no types for its compiled modules: everything in it is Any, so that the type checker
# still watches over everything else.
from typing import Any

def __getattr__(name: str) -> Any: ...
