"""PyQL: a query built action by action, and its forms as text and SPARQL (QueryAgent 3.2)."""
