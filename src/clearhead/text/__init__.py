"""Real text: spans that a translation must keep, accelerators, sentences, markup, documents."""
