"""All stores obey the laws: a folder, a bucket of NATS, and buckets of a server with S3's protocol.

The server is moto's. Its check of `If-None-Match` and its write are two steps, so it is run with
one thread: then they are atomic, as S3 guarantees.
"""

import sys
import time
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from scstream.errors import InputError, StreamError
from scstream.stream.connectors.nats import NatsStore
from scstream.stream.connectors.s3 import S3Store
from scstream.stream.store import FolderStore
from tests.servers import NatsServer, Server
from tests.stream.store_laws import LAWS, put_new_writes_a_name_once

# Between the client and moto: keys with "deaf" in them lose their `If-None-Match`, the first write
# to a key with "lost" in it is done and answered with 500, with "conflict" answered with 409.
S3_SERVER = """
import sys
from werkzeug.serving import run_simple
from werkzeug.test import Client
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

s3 = DomainDispatcherApplication(create_backend_app)
Client(s3).put("/checkpoints", base_url="http://127.0.0.1")
troubled = set()

def app(environ, start_response):
    path, is_write = environ["PATH_INFO"], environ["REQUEST_METHOD"] == "PUT"
    if "deaf" in path:
        environ.pop("HTTP_IF_NONE_MATCH", None)
    first = is_write and path not in troubled
    if first and ("lost" in path or "conflict" in path):
        troubled.add(path)
        if "lost" in path:
            list(s3(environ, lambda *_: None))
        else:
            environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        status = "500 Internal Server Error" if "lost" in path else "409 Conflict"
        start_response(status, [("Content-Length", "0")])
        return [b""]
    return s3(environ, start_response)

run_simple("127.0.0.1", int(sys.argv[1]), app, threaded=False)
"""
SECRETS = {"access_key_id": "CANARYKEY", "secret_access_key": "CANARYSECRET"}


class S3Server(Server):
    name = "moto"

    def _command(self) -> list[str]:
        return [sys.executable, "-c", S3_SERVER, str(self.port)]

    def _answers(self) -> bool:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/moto-api/") as page:
            return page.status == 200

    def store(self, path: str, **options) -> S3Store:
        where = {"endpoint": f"http://127.0.0.1:{self.port}", "region": "us-east-1"}
        return S3Store(f"s3://{path}", allow_http=True, **{**where, **SECRETS, **options})


@pytest.fixture(scope="module")
def s3_server(tmp_path_factory) -> Iterator[S3Server]:
    with S3Server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture(scope="module")
def nats_server(tmp_path_factory) -> Iterator[NatsServer]:
    with NatsServer(tmp_path_factory.mktemp("nats")) as server:
        yield server


@pytest.mark.parametrize("kind", ["folder", "memory", "s3", "nats"])
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_a_store_obeys_the_laws(law, kind, tmp_path, request, own_name):
    if kind == "folder":
        law(FolderStore(tmp_path / "store"))
    elif kind == "memory":
        law(S3Store("memory:///"))
    elif kind == "s3":
        law(request.getfixturevalue("s3_server").store(f"checkpoints/{own_name}"))
    else:
        law(NatsStore(f"{request.getfixturevalue('nats_server').url}/{own_name}"))


def test_large_objects_are_kept_in_chunks(nats_server, own_name):
    """As large as three messages may be; nothing is left of what was replaced or deleted."""
    store = NatsStore(f"{nats_server.url}/{own_name}")
    content = np.random.default_rng(0).bytes(3_000_001)
    assert store.put_new("a", content)
    assert not store.put_new("a", content)
    assert store.get("a") == content
    for start, length in [(0, 9), (500_000, 100_000), (2_999_999, 9), (524_288, 524_288)]:
        assert store.get("a", start, length) == content[start : start + length]
    store.put("a", b"small")
    assert store.get("a") == b"small"
    store.put("b", content)
    store.delete("b")
    assert store.names() == ["a"]
    assert store._subjects(">") == [store._subject("a")]


def test_an_operation_waits_for_nats_to_come_back(tmp_path):
    with NatsServer(tmp_path) as server:
        store = NatsStore(f"{server.url}/checkpoints", retry_timeout=60.0)
        revision = store.replace("a", b"1", revision=None)
        server.kill()
        with pytest.raises(StreamError, match=r"nats://127.*has been unavailable for 0.5 s"):
            NatsStore(f"{server.url}/checkpoints", retry_timeout=0.5).get("a")
        with ThreadPoolExecutor(1) as pool:
            write = pool.submit(store.replace, "a", b"2", revision=revision)
            time.sleep(0.5)
            assert not write.done()
            server.start()
            assert write.result() is not None
        assert store.get("a") == b"2"


def test_a_server_that_ignores_the_condition_breaks_a_law_and_is_reported(s3_server, own_name):
    """Otherwise a server that ignores the header could pass the laws."""
    with pytest.raises(AssertionError):
        put_new_writes_a_name_once(s3_server.store(f"checkpoints/deaf-{own_name}"))
    [finding] = s3_server.store(f"checkpoints/deaf2-{own_name}").doctor()
    assert finding.level == "warn"
    store = s3_server.store(f"checkpoints/{own_name}")
    assert [finding.level for finding in store.doctor()] == ["ok"]
    assert store.names() == []


def test_a_write_whose_answer_is_lost_still_counts(s3_server, own_name):
    """The client tries again, gets the error that the name exists, and finds its own token."""
    for retries in (0, 2):
        store = s3_server.store(f"checkpoints/{own_name}", retry_config={"max_retries": retries})
        assert store.put_new(f"lost-{retries}", b"mine")
        assert not store.put_new(f"lost-{retries}", b"mine")
        assert store.get(f"lost-{retries}") == b"mine"


def test_a_conflict_of_two_writers_is_retried(s3_server, own_name):
    store = s3_server.store(f"checkpoints/{own_name}")
    assert store.put_new("conflict", b"mine")
    assert store.get("conflict") == b"mine"


def test_more_names_than_fit_a_page_are_listed(s3_server, own_name):
    store = s3_server.store(f"checkpoints/{own_name}")
    names = [f"n-{number:04d}" for number in range(1050)]
    for name in names:
        store.put(name, b"")
    assert store.names("n-") == names


def test_prefixes_of_a_bucket_are_separate(s3_server, own_name):
    outer, inner = (s3_server.store(f"checkpoints/{own_name}{end}") for end in ("", "/inner"))
    beside = s3_server.store(f"checkpoints/{own_name}-2")
    for store in (outer, inner, beside):
        assert store.put_new("a", repr(store).encode())
    for store in (outer, inner, beside):
        assert store.names() == ["a"]
        assert store.get("a") == repr(store).encode()


def test_a_write_waits_for_the_server_to_come_back(tmp_path):
    """Moto keeps nothing over its end; that the write waits and gets there is what counts."""
    with S3Server(tmp_path) as server:
        server.kill()
        with pytest.raises(StreamError, match=r"s3://checkpoints/p .*: cannot .* does not answer"):
            server.store("checkpoints/p", retry_timeout=0.3).put("a", b"1")
        store = server.store("checkpoints/p", retry_timeout=60.0)
        with ThreadPoolExecutor(1) as pool:
            write = pool.submit(store.put_new, "a", b"1")
            time.sleep(0.5)
            assert not write.done()
            server.start()
            assert write.result()
        assert store.get("a") == b"1"


def test_errors_name_the_address_without_secrets(s3_server):
    store = s3_server.store("nobucket/p")
    acts = [
        lambda: store.put("a", b""),
        lambda: store.put_new("a", b""),
        lambda: store.get("a"),
        store.names,
    ]
    for act in acts:
        with pytest.raises(StreamError, match=r"s3://nobucket/p.*404 NoSuchBucket") as caught:
            act()
        assert "CANARY" not in str(caught.value) + repr(caught.value.__cause__)
    assert "CANARY" not in repr(store)


@pytest.mark.parametrize(
    ("url", "options", "detail"),
    [
        ("file:///somewhere", {}, "without fsync"),
        ("https://bucket/prefix", {}, "s3://bucket/prefix"),
        ("s3://bucket", {"colour": "CANARY"}, "colour"),
        ("s3://me:CANARY@bucket", {"access_key_id": "CANARY"}, "cannot be used"),
        ("s3://bucket", {"access_key_id": ["CANARY"]}, "cannot be used"),
    ],
)
def test_invalid_options_are_rejected(url, options, detail):
    with pytest.raises(InputError, match=detail) as caught:
        S3Store(url, **options)
    assert "CANARY" not in str(caught.value)
