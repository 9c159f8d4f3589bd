"""What holds for all tests."""

from hypothesis import settings

# A deadline would be a timed assertion: a busy computer takes any time for an example.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
