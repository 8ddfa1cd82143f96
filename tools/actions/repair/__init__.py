"""Verified corrections: what may have been meant by a step that failed, tried before it is offered."""
