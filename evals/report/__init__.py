"""Reports: tables, intervals, tests and plots of evaluations, as one HTML page or Markdown."""
