"""Quotas of keys and tenants: which rows of a batch a pool of models learns.

What is refused follows from the rows of the batches so far and from nothing else, so that a batch
that is learned again refuses the same rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from scstream.stream.keyed import KeyOptions


class KeyQuotas:
    """The limits of a pool; `known` are its keys.

    `refused` counts the rows of the current batch that were over a limit, by option.
    """

    def __init__(self, limits: KeyOptions, known: Collection[str]) -> None:
        self._limits = limits
        self._n_keys: Counter[str] = Counter()  # by tenant, if that is limited
        if limits.max_tenant_keys is not None:
            self._n_keys.update(map(self._tenant_of, known))
        self.begin_batch()

    def begin_batch(self) -> None:
        """Count rows and new keys from zero."""
        self.refused: Counter[str] = Counter()
        self._n_new: Counter[str] = Counter()  # by tenant
        self._n_rows: Counter[str] = Counter()  # by tenant

    def admit(self, key: str, n_rows: int, *, n_keys: int, is_new: bool) -> tuple[int, str]:
        """Return how many of the first rows of a key are learned, and why not the others.

        `n_keys` is the number of keys in the pool. A new key none of whose rows are learned must
        not be added to it.
        """
        tenant = self._tenant_of(key)
        option, n = self._limit_of_new(tenant, n_keys) if is_new else "", 0
        if not option:
            option, n = self._limit_of_rows(tenant, n_rows)
        if option:
            self.refused[option] += n_rows - n
        if n:
            self._n_rows[tenant] += n
            if is_new:
                self._n_new[tenant] += 1
                if self._limits.max_tenant_keys is not None:
                    self._n_keys[tenant] += 1
        return n, self._reason(option, key, tenant) if option else ""

    def forget(self, key: str) -> None:
        """Count a key no longer, because its model was dropped."""
        if self._limits.max_tenant_keys is not None:
            tenant = self._tenant_of(key)
            self._n_keys[tenant] -= 1
            if not self._n_keys[tenant]:
                del self._n_keys[tenant]

    def _limit_of_new(self, tenant: str, n_keys: int) -> str:
        """Return the option that refuses a new key, if any."""
        limits = self._limits
        for option, n, limit in (
            ("max_keys", n_keys, limits.max_keys),
            ("max_tenant_keys", self._n_keys[tenant], limits.max_tenant_keys),
            ("max_new_keys", self._n_new[tenant], limits.max_new_keys),
        ):
            if limit is not None and n >= limit:
                return option
        return ""

    def _limit_of_rows(self, tenant: str, n_rows: int) -> tuple[str, int]:
        """Return the option that refuses rows, if any, and how many rows are left."""
        limits, option = self._limits, ""
        if limits.max_rows is not None and n_rows > limits.max_rows:
            option, n_rows = "max_rows", limits.max_rows
        if limits.max_tenant_rows is not None:
            left = limits.max_tenant_rows - self._n_rows[tenant]
            if n_rows > left:
                option, n_rows = "max_tenant_rows", left
        return option, n_rows

    def _tenant_of(self, key: str) -> str:
        """Return the beginning of a key that names its tenant; keys without one share a tenant."""
        if self._limits.tenant is None:
            return ""
        name, found, _ = key.partition(self._limits.tenant)
        return name if found else ""

    def _reason(self, option: str, key: str, tenant: str) -> str:
        limit = f"keys.{option} = {getattr(self._limits, option)}"
        return {
            "max_keys": f"key {key!r} is new, and there are {limit} already",
            "max_tenant_keys": f"key {key!r} is new, and its tenant {tenant!r} has {limit} already",
            "max_new_keys": f"key {key!r} is new, and this batch has {limit} new ones already",
            "max_rows": f"key {key!r} has more rows in this batch than {limit}",
            "max_tenant_rows": f"tenant {tenant!r} has more rows in this batch than {limit}",
        }[option]
