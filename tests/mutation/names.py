"""A pytest plugin for mutmut 3.8, which asks a test for its `_nodeid`; since pytest 9.1
that has another name."""

from typing import Any

import pytest

item: Any = pytest.Item
if not hasattr(item, "_nodeid"):
    item._nodeid = property(lambda self: self.nodeid)
