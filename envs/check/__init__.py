"""Say by numbers what is wrong with a model that the eye cannot see."""

from .findings import Finding, Severity
from .subject import Report, Subject, check, environment_subject, file_subject

__all__ = [
    "Finding",
    "Report",
    "Severity",
    "Subject",
    "check",
    "environment_subject",
    "file_subject",
]
