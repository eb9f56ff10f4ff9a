"""The German-English grammar: words, phrases, clauses, and the rules of its sentences."""
