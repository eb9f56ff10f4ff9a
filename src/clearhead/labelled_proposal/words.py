"""What texts are read as: whole words and their spelling, or pieces of words."""

from __future__ import annotations

from clearhead.data.labelled_survey import TextSurvey
from clearhead.data.survey import pieces_for
from clearhead.labelled_proposal.proposed import Proposed


def suit_words(p: Proposed) -> None:
    """The vocabulary."""
    if not isinstance(p.train, TextSurvey):
        return
    recipe, text = p.recipe, p.train.text
    case = "Enough texts to learn capitals apart."
    if text.lower_cased:
        case = "The texts are lower-cased already; those to be classified will be, too."
    elif recipe.lower:
        case = "Few texts: a word that begins a sentence is to count as the same word."
    elif recipe.ngrams:
        case = "Capitals tell names from words, and how a word is spelt is seen besides."
    p.say("tokenizer.lower", recipe.lower or text.lower_cased, case)
    if recipe.ngrams:
        _suit_whole_words(p)
    else:
        _suit_pieces(p, text.alphabet)
    hides = "Hidden words, others in each epoch: no single one is to decide."
    p.say("training.word_dropout", recipe.word_dropout, hides if recipe.word_dropout else "")


def _suit_whole_words(p: Proposed) -> None:
    """What few texts are read as, and what suits words that are hardly ever met."""
    p.say(
        "tokenizer.kind",
        "words",
        "Few texts: the pieces of rare words would mislead more than not to know such words.",
    )
    p.say("tokenizer.max_vocabulary", 0)
    p.say("tokenizer.split_punctuation", True, "A word before a comma is to be the same word.")
    p.say(
        "model.character_ngrams",
        p.recipe.ngrams,
        "A word that is not known is known by its stem and its ending.",
    )
    p.say(
        "model.scale_embeddings",
        False,
        "Short vectors: a rare word, hardly trained, weighs little.",
    )
    p.say("model.initialisation", "xavier_scaled", "Attention adds little before it has learned.")
    p.say("model.final_norm", False, "How clearly something was found is to count.")
    p.say("model.positions.kind", "none", "The convolutions know what stands beside what.")


def _suit_pieces(p: Proposed, alphabet: int) -> None:
    """A vocabulary of pieces."""
    recipe = p.recipe
    enough = pieces_for(alphabet)
    pieces = f"For {p.amount}: each piece should be met often enough to be learned."
    if enough > recipe.vocabulary:
        pieces = f"There are {alphabet:,} different characters, each a piece of its own."
    p.say("tokenizer.max_vocabulary", max(recipe.vocabulary, enough), pieces)
    more = "The same words in other pieces make more of the texts (BPE-dropout)."
    p.say("tokenizer.sampling", recipe.sampling, more if recipe.sampling else "")
