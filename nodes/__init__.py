"""The phases of the agent: one module each, with its interchangeable variants.

`VARIANTS` of each module maps variant name -> callable `(state, runtime) -> update`. Any callable of that
shape may stand in for a variant (`build_graph(reflect=my_reflect)`).
"""
