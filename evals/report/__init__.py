"""Reports: tables and intervals of evaluations, as Markdown."""
