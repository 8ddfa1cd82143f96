"""Reports: tables, intervals and tests of evaluations, as one HTML page or Markdown."""
