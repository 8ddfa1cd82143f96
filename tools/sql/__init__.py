"""A relational database as an environment: what it holds, and read-only queries built from parts."""
