"""What holds for all tests."""

from hypothesis import settings

# A deadline would be a timed assertion: a busy computer takes any time for an example.
settings.register_profile("explore", deadline=None)
# The same examples every time, so that a change is judged by what it changed. New ones are looked
# for with --hypothesis-profile explore; what they find becomes an @example of the test.
settings.register_profile("same", deadline=None, derandomize=True)
settings.load_profile("same")
