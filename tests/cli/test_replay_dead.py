"""Dead letters are sent to the broker again: complete ones, each once."""

import json

import pytest
import redis

from scstream.cli.replay_dead import Result
from scstream.errors import InputError
from scstream.stream.connectors.kafka.sender import KafkaSender
from scstream.stream.connectors.nats.sender import NatsSender
from tests.cli.inside import inside
from tests.servers import NatsServer, RedisServer
from tests.stream.test_nats import do, make

LETTERS = [
    {"batch": 0, "index": 3, "reason": "late: its time", "content": '{"x": 1}', "complete": True},
    {"batch": 0, "index": 5, "reason": "column 'x'", "content": '{"x": "a"}', "complete": True},
    {"batch": 2, "index": 0, "reason": "late: its time", "content": '{"x": ', "complete": False},
    {"batch": 2, "index": 1, "reason": "late: its time", "content": '{"x": 2}'},  # an older file
    {"batch": 4, "index": 1, "reason": "late: its time", "content": '{"x": "é"}', "complete": True},
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with RedisServer(tmp_path_factory.mktemp("redis")) as running:
        yield running


@pytest.fixture
def job(tmp_path, server):
    name = tmp_path.name
    (tmp_path / "state").mkdir()
    closed, opened = tmp_path / "dead.00000000.jsonl", tmp_path / "dead.jsonl"
    closed.write_text("".join(json.dumps(letter) + "\n" for letter in LETTERS[:2]))
    opened.write_text("".join(json.dumps(letter) + "\n" for letter in LETTERS[2:]) + '{"batch": 5')
    (tmp_path / "job.toml").write_text(
        f'job = "{name}"\nsource = {{kind = "redis", url = "{server.url}", stream = "{name}"}}\n'
        'dead_letters = {kind = "file", path = "dead.jsonl"}\ncheckpoint = {folder = "state"}\n'
    )
    return tmp_path


def sent(server, name):
    client = redis.Redis.from_url(server.url)
    return [fields[b"row"].decode() for _, fields in client.xrange(name)]


def replay(folder, *options):
    done = inside("replay-dead", "job.toml", "--json", *options, folder=folder)
    assert done.exit_code == 0, done.output
    return Result(**json.loads(done.stdout))


def test_complete_letters_are_sent_once_however_often_it_runs(job, server):
    assert replay(job, "--dry-run") == Result(3, before=0, incomplete=2, other=0)
    assert sent(server, job.name) == []
    assert replay(job, "--reason", "late") == Result(2, before=0, incomplete=2, other=1)
    assert sent(server, job.name) == ['{"x": 1}', '{"x": "é"}']
    assert replay(job) == Result(1, before=2, incomplete=2, other=0)
    assert replay(job) == Result(0, before=3, incomplete=2, other=0)
    assert sent(server, job.name) == ['{"x": 1}', '{"x": "é"}', '{"x": "a"}']


def test_letters_may_go_to_another_place(job, server):
    assert replay(job, "--to", f"{server.url}/other").sent == 3
    assert len(sent(server, "other")) == 3 and not sent(server, job.name)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("source.format=arrow", "dead letters are JSON"),
        ("dead_letters.path=dead.csv", "files of JSON lines"),
        ("dead_letters.path=job.toml.jsonl", ""),
    ],
)
def test_what_cannot_be_sent_is_refused(job, change, sentence):
    (job / "job.toml.jsonl").write_text("[1]\n")
    done = inside("replay-dead", "job.toml", "--set", change, folder=job)
    assert done.exit_code == 2
    assert (sentence or "is not a dead letter") in done.stderr


def test_nats_stores_a_message_once_and_needs_one_subject(tmp_path):
    messages = [("job/dead/0/3", b"1"), ("job/dead/0/5", b"2")]
    with NatsServer(tmp_path) as server:
        make(server.url, "rows")
        sender = NatsSender(server.url, "rows", subject="rows.again")
        sender.send(messages)
        sender.send(messages)
        state = do(server.url, lambda js: js.stream_info("rows")).state
    assert state.messages == 2
    with pytest.raises(InputError, match="no single subject"):
        NatsSender(server.url, "rows", subject="rows.>")


def test_kafka_confirms_messages():
    sender = KafkaSender("unused:1", "rows", options={"test.mock.num.brokers": 1})
    sender.send([("job/dead/0/3", b"1")])
    sender.close()
