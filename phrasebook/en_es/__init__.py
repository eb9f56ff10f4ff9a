"""The English-Spanish grammar: words, phrases, clauses, and the rules of its sentences."""
