"""Values that everything else speaks: terms, rules, calls, feedback, errors, values, units."""
