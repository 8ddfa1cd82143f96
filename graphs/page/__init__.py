"""The page of a run or of an evaluation: one HTML file that needs nothing else."""

from triplewise.graphs.page.model import Cell, Chart, Page, Question, RunBlock, Table
from triplewise.graphs.page.write import render_page, write_page

__all__ = ["Cell", "Chart", "Page", "Question", "RunBlock", "Table", "render_page", "write_page"]
