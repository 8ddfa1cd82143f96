"""What everything else speaks: terms, rules, names, errors, files, addresses, agreement of answers."""
