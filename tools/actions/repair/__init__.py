"""Verified corrections: what may have been meant by a step that failed, tried on the KG before it is offered.

A new kind of fix is a function in `fixes` with `@kind(...)`.
"""
