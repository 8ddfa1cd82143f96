"""Reports: tables, intervals and tests of evaluations, as Markdown."""
