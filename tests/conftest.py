"""Fixtures of several rooms: an S3 server in this process, on a port of its own. Settings of hypothesis."""

from __future__ import annotations

import gc
import logging
import signal
import threading
import uuid
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from hypothesis import settings
from moto.s3.responses import S3Response
from moto.server import ThreadedMotoServer

if TYPE_CHECKING:
    from collections.abc import Iterator


# The same examples in each run; others with `pytest --hypothesis-profile fresh`. No deadlines: the first call
# of a test may import and compile, and machines are shared.
settings.register_profile("fixed", deadline=None, derandomize=True)
settings.register_profile("fresh", deadline=None)
settings.load_profile("fixed")

# a shell starts what runs in the background with Ctrl-C ignored, also for all processes that it starts
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Leave what was collected, the objects of 20,000 tests, out of all later collections of garbage."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def one_put_at_a_time() -> Iterator[None]:
    """Make conditional requests atomic, as those of S3 are: moto's server looks first and writes then."""
    lock, put_object = threading.Lock(), S3Response.put_object

    def locked(self: S3Response) -> Any:
        with lock:
            return put_object(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(S3Response, "put_object", locked)
        yield


@pytest.fixture(scope="session")
def s3_options(one_put_at_a_time: None) -> Iterator[dict[str, Any]]:
    """Storage options of a running S3 server, with a secret that must never be seen again."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    try:
        yield {
            "key": "access-key-id",
            "secret": "s3cr3t-unguessable/key+1",
            "endpoint_url": f"http://{host}:{port}",
            "client_kwargs": {"region_name": "us-east-1"},
        }
    finally:
        server.stop()


@pytest.fixture
def bucket(s3_options: dict[str, Any]) -> str:
    """Return the URL of a new, empty bucket."""
    name = f"bucket-{uuid.uuid4().hex}"
    client = boto3.client(
        "s3",
        endpoint_url=s3_options["endpoint_url"],
        aws_access_key_id=s3_options["key"],
        aws_secret_access_key=s3_options["secret"],
        region_name="us-east-1",
    )
    client.create_bucket(Bucket=name)
    client.close()
    return f"s3://{name}"
