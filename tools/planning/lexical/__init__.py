"""Rules from the words of a question alone, without seed questions and without a language model."""
