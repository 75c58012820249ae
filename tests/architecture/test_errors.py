"""The shape of the exception tree is part of the interface."""

import inspect
import pickle

import pytest

from lance_df import errors

TREE = {
    "InvalidInputError": ("LanceError", ValueError),
    "NotFoundError": ("LanceError", LookupError),
    "DatasetNotFoundError": ("NotFoundError", LookupError),
    "VersionNotFoundError": ("NotFoundError", LookupError),
    "ColumnNotFoundError": ("NotFoundError", LookupError),
    "AlreadyExistsError": ("LanceError", Exception),
    "ConflictError": ("LanceError", Exception),
    "RetryableConflictError": ("ConflictError", Exception),
    "IncompatibleConflictError": ("ConflictError", Exception),
    "CommitStateUnknownError": ("LanceError", Exception),
    "RowCountMismatchError": ("LanceError", Exception),
    "CorruptDataError": ("LanceError", Exception),
    "UnsupportedFeatureError": ("LanceError", Exception),
    "StorageError": ("LanceError", OSError),
    "JobFailedError": ("LanceError", Exception),
    "JobCancelledError": ("JobFailedError", Exception),
    "ForkedProcessError": ("LanceError", RuntimeError),
    "MissingDependencyError": ("LanceError", ImportError),
}
CLASSES = {
    name: value
    for name, value in vars(errors).items()
    if inspect.isclass(value) and issubclass(value, BaseException)
}


def test_the_tree_is_complete():
    assert CLASSES.keys() == TREE.keys() | {"LanceError"}


@pytest.mark.parametrize("name", TREE)
def test_parents(name):
    parent, builtin = TREE[name]
    assert CLASSES[name].__bases__[0] is CLASSES[parent]
    assert issubclass(CLASSES[name], builtin)


@pytest.mark.parametrize("name", CLASSES)
def test_errors_pickle_and_are_documented(name):
    error = CLASSES[name]("flights.lance: ünïcode")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert CLASSES[name].__doc__
    assert name in (errors.__doc__ or "")
