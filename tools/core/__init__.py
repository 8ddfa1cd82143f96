"""The values that all packages share: terms, rules, names, errors, files, addresses, agreement of answers."""
