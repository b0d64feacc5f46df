"""The one error of the engine that a user can mend."""


class StudyError(Exception):
    """Something about a study, its file or its store that the user can mend, said in one line."""
