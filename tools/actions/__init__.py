"""The actions an agent can take, and how its replies are read.

`pyql` builds a query (QueryAgent), `explore` walks the graph (ODA), `symbolic` follows rules (SymAgent),
`agentbench` makes sets from sets (AgentBench); `sql` queries a relational database column by column
(QueryAgent), and in SQL by `select`. `sparql` asks a graph in SPARQL that the model writes.
"""

from __future__ import annotations

from triplewise.tools.actions.agentbench import AGENTBENCH
from triplewise.tools.actions.explore import EXPLORE
from triplewise.tools.actions.pyql import PYQL
from triplewise.tools.actions.replies import parse_reply
from triplewise.tools.actions.select import SELECT
from triplewise.tools.actions.sparql import SPARQL
from triplewise.tools.actions.sql import SQL
from triplewise.tools.actions.symbolic import SYMBOLIC
from triplewise.tools.actions.toolset import ActionContext, Call, Feedback, Toolset, action

__all__ = ["DATABASE_TOOLSETS", "EXPLORE", "MODEL_TOOLSETS", "PYQL", "SYMBOLIC", "TOOLSETS",
           "ActionContext", "Call", "Feedback", "Toolset", "action", "parse_reply"]  # fmt: skip

DATABASE_TOOLSETS = (SQL.name, SELECT.name)  # Toolsets that ask a relational database in place of a KG
MODEL_TOOLSETS = (*DATABASE_TOOLSETS, SPARQL.name, AGENTBENCH.name)  # Those that only a model can use
TOOLSETS = {t.name: t for t in (PYQL, EXPLORE, SYMBOLIC, AGENTBENCH, SQL, SELECT, SPARQL)}
