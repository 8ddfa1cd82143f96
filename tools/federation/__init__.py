"""Several graphs and databases queried as one: names, bridges between their nodes, one query over all."""
