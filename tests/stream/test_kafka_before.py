"""The last series of Kafka before 4, once: reading, transactions, fencing, ids of topics."""

import pytest

from scstream.errors import Fenced, SourceChanged
from tests.java import KAFKA_BEFORE
from tests.kafka_server import KafkaCluster
from tests.stream.kafka_tools import Broker, delivery, gathered, keys, numbered


def test_kafka_3_9_reads_writes_fences_and_knows_its_topics(tmp_path, own_name):
    with KafkaCluster(tmp_path, version=KAFKA_BEFORE) as cluster:
        broker = Broker(cluster)
        broker.topic(own_name)
        zombie, heir = (broker.sink(own_name, transactional=True) for _ in range(2))
        zombie.open(None)
        zombie.write(delivery(0))
        position = zombie.flush()
        zombie.write(delivery(1))
        heir.open(position)
        with pytest.raises(Fenced):
            zombie.flush()
        heir.write(delivery(1))
        heir.flush()
        zombie.close()
        heir.close()
        assert [key for key, _ in broker.content(own_name)] == keys(range(2))
        broker.send(own_name, numbered(5), partition=1)
        source = broker.source(own_name)
        source.open(None)
        assert len(gathered(source, 25)) == 25
        cluster.delete(own_name)
        broker.topic(own_name)
        broker.send(own_name, numbered(30), partition=1)
        with pytest.raises(SourceChanged, match="its id was"):
            gathered(source, 1)
        source.close()
