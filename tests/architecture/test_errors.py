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
    "IndexNotFoundError": ("NotFoundError", LookupError),
    "AlreadyExistsError": ("LanceError", Exception),
    "IndexAlreadyExistsError": ("AlreadyExistsError", RuntimeError),
    "ConflictError": ("LanceError", Exception),
    "RetryableConflictError": ("ConflictError", Exception),
    "IncompatibleConflictError": ("ConflictError", Exception),
    "CommitStateUnknownError": ("LanceError", Exception),
    "RowCountMismatchError": ("LanceError", Exception),
    "CorruptDataError": ("LanceError", Exception),
    "ResourcesExhaustedError": ("LanceError", MemoryError),
    "UnsupportedFeatureError": ("LanceError", NotImplementedError),
    "StorageError": ("LanceError", OSError),
    "JobFailedError": ("LanceError", Exception),
    "JobCancelledError": ("JobFailedError", Exception),
    "ForkedProcessError": ("LanceError", RuntimeError),
    "MissingDependencyError": ("LanceError", ImportError),
}
# what pylance raises for the same mistakes
AS_PYLANCE = {
    "InvalidInputError": (ValueError, OSError),
    "DatasetNotFoundError": (ValueError, OSError),
    "VersionNotFoundError": (ValueError, OSError),
    "ColumnNotFoundError": (KeyError, ValueError, OSError),
    "IndexNotFoundError": (KeyError, RuntimeError),
    "AlreadyExistsError": (ValueError, OSError),
    "IndexAlreadyExistsError": (RuntimeError, ValueError),
    "ConflictError": (OSError,),
    "UnsupportedFeatureError": (OSError,),
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


@pytest.mark.parametrize("name", AS_PYLANCE)
def test_handlers_for_pylance_catch(name):
    for builtin in AS_PYLANCE[name]:
        with pytest.raises(builtin) as caught:
            raise CLASSES[name]("flights.lance: 'x' is wrong")
        assert str(caught.value) == "flights.lance: 'x' is wrong"


@pytest.mark.parametrize("name", CLASSES)
def test_errors_pickle_and_are_documented(name):
    error = CLASSES[name]("flights.lance: ünïcode")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert CLASSES[name].__doc__
    assert name in (errors.__doc__ or "")
