"""Several graphs and databases asked as one: names, bridges between their nodes, one query over all."""
