"""Words: tokens, stems, and the grammar of English and of other languages as data."""
