"""The grammar that generates the built-in phrasebook: see README.md."""
