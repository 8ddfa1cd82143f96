"""Assertions of the shared case runner are shown with their values."""

import pytest

pytest.register_assert_rewrite("tests.support.cases")
