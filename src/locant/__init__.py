"""Locant gives Transformers word order.

The rooms of the library, each importing only from those below it::

    cli          one file a command
    app          the report page
    figures      pictures: numbers in, figures out
    training     objective, schedule, loop, checkpoints, distribution
    decoding     greedy and beam search, the translator, scores
    text         corpora, cleaning, tokenizer, batches
    transformer  attention, blocks, the encoder-decoder model
    positions    positional schemes; needs torch alone
"""

from locant.version import __version__

__all__ = ["__version__"]
