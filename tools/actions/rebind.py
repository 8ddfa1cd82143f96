"""Taking up a variable anew: a dead end among mediators gives way to another relation of the same node."""

from __future__ import annotations

from dataclasses import replace

from triplewise.tools.core.terms import Variable
from triplewise.tools.pyql import Fact, PyQL


def rebound(before: PyQL, after: PyQL) -> tuple[PyQL, Variable, Fact] | None:
    """What a program becomes if its newest fact replaces an earlier one (QueryAgent, figure 7, step 7).

    Args:
        before: the program without the fact.
        after: the program with it.

    Returns:
        the program with the earlier fact left out, the variable that both facts bind, and the earlier fact;
        None unless both join the same known node with that variable, at the same ends, and nothing else
        hangs on the variable.
    """
    newest = after.clauses[-1]
    if not isinstance(newest, Fact) or len(newest.mentions) != 1:
        return None
    variable = newest.mentions[0]
    hanging = [clause for clause in before.clauses if variable in clause.mentions]
    if len(hanging) != 1 or not isinstance(hanging[0], Fact):
        return None
    earlier = hanging[0]
    if (earlier.subject, earlier.object) != (newest.subject, newest.object):
        return None
    kept = tuple(clause for clause in after.clauses if clause != earlier)
    return replace(after, clauses=kept), variable, earlier
