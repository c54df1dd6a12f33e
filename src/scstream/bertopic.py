"""The clusterer and the words of an online BERTopic; BERTopic itself is not imported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer

from scstream.core.state import NOVEL
from scstream.errors import InputError
from scstream.estimator import ScStream
from scstream.families.base import Array
from scstream.io.tables import to_frame

__all__ = ["ScStreamTopics", "TopicWords", "group_info", "sync_topics"]

_TRACE = 1e-9  # of the counts of a merged topic: it keeps its words, and no other topic sees them
_NO_WORD = ("", 1e-5)  # what BERTopic writes in place of a word


class ScStreamTopics(ScStream):
    """`ScStream` as ``hdbscan_model`` of a BERTopic that learns batch by batch.

    BERTopic numbers topics by the labels of the first batch, and gives every label that it meets
    later the next number. If the first batch has no outlier, outliers that come later become a
    topic like any other. So that -1 stays -1, the row that fits least is labelled -1 here if no
    other row of the first batch is. It is learned all the same, and nothing else differs.

    Parameters
    ----------
    family, prior, alpha, half_life, kernel, n_sweeps, algorithm, max_clusters, late : object
        As in `ScStream`.
    births, motion, archive, min_birth_weight, min_weight, coarseness, precision : object
        As in `ScStream`.
    config, n_jobs, executor, max_events, random_state : object
        As in `ScStream`.

    Attributes
    ----------
    labels_ : array of shape (N,)
        Ids of the clusters of the rows of the last batch, -1 for a row that belongs to none.

    Notes
    -----
    A topic keeps its number for ever, and a cluster its id; ``topic_mapper_.get_mappings()`` of the
    BERTopic says which topic belongs to which cluster. They are the same as long as every cluster
    was born and found by itself.

    Names and merges by people are edits of this model (`name`, `merge`); `sync_topics` shows them
    in the BERTopic.

    Examples
    --------
    >>> from scstream.bertopic import ScStreamTopics
    >>> ScStreamTopics(random_state=0).partial_fit(
    ...     [[0.1], [0.2], [0.3], [0.4], [0.5], [9.0]]
    ... ).labels_
    array([ 0,  0,  0,  0,  0, -1])
    """

    def partial_fit(
        self,
        X: Any,
        y: Any = None,
        *,
        time: Any = None,
        sample_weight: Any = None,
        ids: Any = None,
        texts: Any = None,
    ) -> Self:
        """Learn one batch; there is a -1 among the labels of the first.

        Parameters
        ----------
        X : array, table or CSR matrix of shape (N, D)
            The rows.
        y : None
            Not used.
        time, sample_weight, ids, texts : object
            As in `ScStream.partial_fit`.

        Returns
        -------
        ScStreamTopics
            The model itself.

        Examples
        --------
        >>> from scstream.bertopic import ScStreamTopics
        >>> rows = [[0.1], [0.2], [0.3], [0.4], [0.5], [0.6]]
        >>> model = ScStreamTopics(random_state=0).partial_fit(rows)
        >>> model.labels_
        array([-1,  0,  0,  0,  0,  0])
        >>> model.partial_fit([[0.15], [0.35], [0.55]]).labels_
        array([0, 0, 0])
        """
        is_first = not hasattr(self, "model_")
        super().partial_fit(X, y, time=time, sample_weight=sample_weight, ids=ids, texts=texts)
        if is_first and NOVEL not in self.labels_:
            self.labels_[np.argmin(self.score_samples(X))] = NOVEL
        return self


class TopicWords(CountVectorizer):
    """Word counts of topics as ``vectorizer_model`` of a BERTopic that learns batch by batch.

    Only topics that have documents in a batch forget: a topic without documents keeps its words,
    however long. Memory is bounded by the number of topics, because each keeps its most frequent
    words only. Topics that are merged by `sync_topics` share their words.

    Parameters
    ----------
    decay : float
        Share of the counts of a topic that every batch with documents of it removes. 0 keeps all.
    max_words : int
        Number of words that are kept for each topic.
    **parameters : object
        Parameters of `sklearn.feature_extraction.text.CountVectorizer`, such as `stop_words` and
        `ngram_range`. `min_df`, `max_df` and `max_features` have no effect on batches.

    Attributes
    ----------
    counts_ : list of dict
        Number of every word, for each topic in the order of the numbers of topics.
    vocabulary_ : dict
        Column of every word.

    Examples
    --------
    >>> from scstream.bertopic import TopicWords
    >>> words = TopicWords(decay=0.5)
    >>> words.update_bow(["rain rain wind", "goal"]).toarray()
    array([[0., 2., 1.],
           [1., 0., 0.]])
    >>> words.update_bow(["rain", " "]).toarray()
    array([[0. , 2. , 0.5],
           [1. , 0. , 0. ]])
    >>> words.get_feature_names_out()
    array(['goal', 'rain', 'wind'], dtype=object)
    """

    def __init__(self, *, decay: float = 0.05, max_words: int = 500, **parameters: Any) -> None:
        super().__init__(**parameters)
        self.decay = decay
        self.max_words = max_words

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return sorted([*CountVectorizer._get_param_names(), "decay", "max_words"])

    def partial_fit(self, raw_documents: Sequence[str]) -> Self:
        """Do nothing: `update_bow`, which BERTopic calls next, also finds new words.

        Parameters
        ----------
        raw_documents : sequence of str
            Not used.

        Returns
        -------
        TopicWords
            The vectorizer itself.

        Examples
        --------
        >>> from scstream.bertopic import TopicWords
        >>> words = TopicWords()
        >>> words.partial_fit(["rain wind"]) is words
        True
        """
        return self

    def update_bow(self, raw_documents: Sequence[str]) -> Any:
        """Count the words of one batch; forget in topics that have documents in it.

        Parameters
        ----------
        raw_documents : sequence of str
            All documents of each topic as one text, in the order of the numbers of topics. It is
            blank for a topic without documents.

        Returns
        -------
        CSR matrix of shape (number of topics, number of words)
            The counts, with those of merged topics added.

        Examples
        --------
        >>> from scstream.bertopic import TopicWords
        >>> TopicWords(stop_words="english").update_bow(["the rain", "a goal"]).toarray()
        array([[0., 1.],
               [1., 0.]])
        """
        if not 0 <= self.decay < 1:
            raise InputError(f"decay must be at least 0 and less than 1, got {self.decay!r}.")
        analyze = self.build_analyzer()
        known = getattr(self, "counts_", [])
        rows = [*known, *({} for _ in range(len(raw_documents) - len(known)))]
        found = (Counter(analyze(text)) for text in raw_documents)
        self.counts_ = [self._added(*pair) for pair in zip(rows, found, strict=True)]
        return self._bow()

    def _added(self, counts: Mapping[str, float], found: Counter[str]) -> Mapping[str, float]:
        """Return the counts of a topic after a batch, at most `max_words` of them."""
        if not found:
            return counts
        faded = {word: count * (1 - self.decay) for word, count in counts.items()}
        for word, count in found.items():
            faded[word] = faded.get(word, 0.0) + count
        kept = sorted(faded.items(), key=lambda item: (-item[1], item[0]))
        return dict(kept[: self.max_words])

    def _bow(self) -> Any:
        """Return the counts as a new matrix, which BERTopic may change."""
        words = sorted(set().union(*self.counts_))
        self.vocabulary_ = {word: column for column, word in enumerate(words)}
        entries = [
            (count, row, self.vocabulary_[word])
            for row, counts in enumerate(self.counts_)
            for word, count in counts.items()
        ]
        count, row, column = np.array(entries).reshape(-1, 3).T
        shape = len(self.counts_), len(words)
        place = row.astype(np.int32), column.astype(np.int32)
        matrix = sparse.csr_matrix((count, place), shape=shape)
        return sparse.csr_matrix(self._joining() @ matrix)

    def _joining(self) -> Any:
        """Return the matrix that adds the counts of merged topics."""
        joined: Mapping[int, int] = getattr(self, "_joined", {})
        n = len(self.counts_)
        own = [_TRACE if row in joined else 1.0 for row in range(n)]
        added = ([1.0] * len(joined), (list(joined.values()), list(joined)))
        return sparse.diags(own, format="csr") + sparse.csr_matrix(added, shape=(n, n))


def sync_topics(topic_model: Any) -> Any:
    """Show names and merges of clusters in a BERTopic; call it after batches and edits.

    Names of clusters become custom labels of topics. If a cluster was merged into another one, by
    people or by the algorithm, the documents and words of its topic count for the other topic. Its
    number is not used again, and its label says where it went. `undo` of the merge and another
    call separate the topics again.

    Parameters
    ----------
    topic_model : BERTopic
        It has learned a batch with ``hdbscan_model=ScStreamTopics(...)`` and
        ``vectorizer_model=TopicWords(...)``. Its custom labels are replaced.

    Returns
    -------
    BERTopic
        The same object.

    Examples
    --------
    >>> import numpy as np
    >>> from bertopic import BERTopic
    >>> from bertopic.dimensionality import BaseDimensionalityReduction
    >>> from scstream.bertopic import ScStreamTopics, TopicWords, sync_topics
    >>> topic_model = BERTopic(
    ...     umap_model=BaseDimensionalityReduction(),
    ...     hdbscan_model=ScStreamTopics(random_state=0),
    ...     vectorizer_model=TopicWords(),
    ... )
    >>> X = np.array([[0.1], [0.2], [0.3], [0.4], [0.5], [9.0]])
    >>> topic_model = topic_model.partial_fit(["rain wind"] * 5 + ["goal"], embeddings=X)
    >>> model = topic_model.hdbscan_model.name(0, "weather")
    >>> sync_topics(topic_model).get_topic_info().CustomName.tolist()
    ['-1_goal___', 'weather']
    """
    clusterer, words = _parts(topic_model)
    _fill_gaps(topic_model, words)
    topic_of = _topic_of(topic_model)
    merged = _merged(clusterer, words, topic_of)
    _move_sizes(topic_model, words, merged)
    place = {topic: row for row, topic in enumerate(sorted(topic_model.topic_sizes_))}
    joined = {place[topic]: place[into] for topic, into in merged.items()}
    if joined != getattr(words, "_joined", {}):
        words._joined = joined
        _update_words(topic_model, words)
    if len(clusterer.labels_) == len(topic_model.topics_):
        topics = [topic_of[label] for label in clusterer.labels_.tolist()]
        topic_model.topics_ = [merged.get(topic, topic) for topic in topics]
    names = {topic_of[id_]: name for id_, name in clusterer.names_.items() if id_ in topic_of}
    names |= {topic: f"merged into {into}" for topic, into in merged.items()}
    default = topic_model.topic_labels_
    labels = [names.get(topic, default[topic]) for topic in sorted(place)]
    topic_model.custom_labels_ = labels if names else None
    return topic_model


def group_info(topic_model: Any, *, resolution: float = 1.0) -> Any:
    """Return the topics joined into groups, as `get_topic_info` of BERTopic does for topics.

    Parameters
    ----------
    topic_model : BERTopic
        As in `sync_topics`, which is called first.
    resolution : float
        As in `ScStream.groups_at`: smaller values give fewer and larger groups.

    Returns
    -------
    pandas.DataFrame
        One row per group: its id, the number of documents, its name, its topics, and the words of
        all of them together. A group of one cluster has the name of the cluster if it has none of
        its own. Topics whose clusters have ended are in no group.

    Examples
    --------
    >>> import numpy as np
    >>> from bertopic import BERTopic
    >>> from bertopic.dimensionality import BaseDimensionalityReduction
    >>> from scstream.bertopic import ScStreamTopics, TopicWords, group_info
    >>> topic_model = BERTopic(
    ...     umap_model=BaseDimensionalityReduction(),
    ...     hdbscan_model=ScStreamTopics(random_state=0),
    ...     vectorizer_model=TopicWords(),
    ... )
    >>> X = np.array([[0.1], [0.2], [0.3], [0.4], [0.5], [9.0]])
    >>> topic_model = topic_model.partial_fit(["rain wind"] * 5 + ["goal"], embeddings=X)
    >>> group_info(topic_model)[["Group", "Count", "Topics", "Name"]]
       Group  Count Topics         Name
    0      0      5    [0]  0_rain_wind
    """
    clusterer, words = _parts(sync_topics(topic_model))
    topic_of, topics = _topic_of(topic_model), sorted(topic_model.topic_sizes_)
    groups = clusterer.groups_at(resolution)
    members = {
        int(group): [topic_of[id_] for id_ in groups.members(group).tolist() if id_ in topic_of]
        for group in groups.id
    }
    members = {group: found for group, found in members.items() if found}
    joining = np.array([[topic in found for topic in topics] for found in members.values()])
    counts = sparse.csr_matrix(joining.reshape(-1, len(topics)) @ words._bow())
    weights = topic_model.ctfidf_model.transform(counts).toarray()
    names = clusterer.model_.state.steering.group_names
    table: dict[str, list[Any]] = {
        column: [] for column in ("Group", "Count", "Name", "Topics", "Representation")
    }
    for (group, found), scores in zip(members.items(), weights, strict=True):
        top = [word for word, _ in _top_words(topic_model, words, scores) if word]
        count = sum(topic_model.topic_sizes_[topic] for topic in found)
        given = names.get(group) or (clusterer.names_.get(group) if len(found) == 1 else None)
        name = given or "_".join([str(group), *top[:4]])
        for column, value in zip(table, (group, count, name, found, top), strict=True):
            table[column].append(value)
    return to_frame(table, "pandas")


def _parts(topic_model: Any) -> tuple[ScStreamTopics, TopicWords]:
    """Return the clusterer and the word counts of a BERTopic that has learned a batch."""
    clusterer, words = topic_model.hdbscan_model, topic_model.vectorizer_model
    if not isinstance(clusterer, ScStreamTopics) or not isinstance(words, TopicWords):
        raise InputError(
            "topics follow clusters in a BERTopic with hdbscan_model=ScStreamTopics(...) and "
            f"vectorizer_model=TopicWords(...), got {type(clusterer).__name__} and "
            f"{type(words).__name__}."
        )
    if not hasattr(words, "counts_"):
        raise InputError("the BERTopic has learned no batch yet; call its partial_fit first.")
    return clusterer, words


def _topic_of(topic_model: Any) -> dict[int, int]:
    """Return the number of the topic of every cluster that had documents."""
    mappings = topic_model.topic_mapper_.get_mappings()
    return {int(cluster): int(topic) for cluster, topic in mappings.items()}


def _fill_gaps(topic_model: Any, words: TopicWords) -> None:
    """Add topics for clusters of the first batch that had no documents in it.

    BERTopic takes the number of a topic for the position of its label, so none may be missing.
    """
    topics = sorted(topic_model.topic_sizes_)
    missing = sorted(set(range(topics[-1] + 1)) - set(topics))
    for topic in missing:
        topic_model.topic_mapper_.add_new_topics({topic: topic})
        topic_model.topic_sizes_[topic] = 0
        topic_model.topic_representations_[topic] = [_NO_WORD] * topic_model.top_n_words
        words.counts_.insert(sorted(topic_model.topic_sizes_).index(topic), {})
    if missing:
        _update_words(topic_model, words)


def _merged(
    clusterer: ScStreamTopics, words: TopicWords, topic_of: Mapping[int, int]
) -> dict[int, int]:
    """Return which topics were merged, and into which topic each of them went."""
    into: dict[int, int] = getattr(words, "_into", {})
    for event in clusterer.events_:
        if event.kind == "merged" and event.other is not None:
            into[event.other] = event.id
    words._into = {id_: other for id_, other in into.items() if id_ in topic_of}
    alive = set(clusterer.state_.ids.tolist())
    merged = {}
    for id_, topic in topic_of.items():
        last, steps = id_, 0
        while last not in alive and last in into and steps < len(into):
            last, steps = into[last], steps + 1
        if last != id_ and last in topic_of:
            merged[topic] = topic_of[last]
    return merged


def _move_sizes(topic_model: Any, words: TopicWords, merged: Mapping[int, int]) -> None:
    """Count the documents of merged topics for the topics that they are in now."""
    sizes = topic_model.topic_sizes_
    for topic, (other, size) in getattr(words, "_moved", {}).items():
        sizes[topic] += size
        sizes[other] -= size
    words._moved = {topic: (other, sizes[topic]) for topic, other in merged.items()}
    for topic, (other, size) in words._moved.items():
        sizes[topic] -= size
        sizes[other] += size


def _update_words(topic_model: Any, words: TopicWords) -> None:
    """Compute the words of all topics again, after topics were merged or separated."""
    counts = words._bow()
    topic_model.ctfidf_model.fit(counts)
    topic_model.c_tf_idf_ = topic_model.ctfidf_model.transform(counts)
    topics = sorted(topic_model.topic_sizes_)
    for topic, scores in zip(topics, topic_model.c_tf_idf_.toarray(), strict=True):
        topic_model.topic_representations_[topic] = _top_words(topic_model, words, scores)


def _top_words(topic_model: Any, words: TopicWords, scores: Array) -> list[tuple[str, float]]:
    """Return the words of the largest weights, as BERTopic lists them."""
    n, names = topic_model.top_n_words, words.get_feature_names_out()
    best = [i for i in np.argsort(-scores, kind="stable")[:n] if scores[i] > 0]
    found = [(str(names[i]), float(scores[i])) for i in best]
    return found + [_NO_WORD] * (n - len(found))
