"""Positional schemes, and the Transformers that they give word order.

Everything here is imported when it is first used, so that ``import locant`` costs nothing::

    import locant

    run = locant.train(locant.load_recipe("bible-modern-english"), "runs/bible")
    locant.Translator.from_pretrained("runs/bible").translate("Thou hast spoken well.")

What is not offered here is offered by a room, a package such as ``locant.positions``. Each room imports only from
those below it:

    =================  ====================================================================
    ``cli``            the command line, one file a command
    ``app``            pages: reports, gallery of figures, explorer
    ``lab``            fair comparisons of positional schemes
    ``extension``      existing RoPE models: inspect, extend, evaluate by length
    ``figures``        one function a picture
    ``interop``        Marian, M2M-100, CTranslate2 and ONNX
    ``training``       recipes, objective, schedule, training loop, checkpoints
    ``translation``    greedy and beam search, translator, engines
    ``analysis``       scores, probes, introspection, properties of schemes
    ``models``         Transformer, language model, RNN; saving and loading
    ``rotary_configs`` other people's rotary configurations: read, write, recognise
    ``positions``      positional schemes and frequency scalings; needs torch alone
    ``text``           corpora, cleaning, tokenizers, batches
    ``kernels``        compiled kernels and their switch
    =================  ====================================================================

The names that a room's ``__all__`` lists are public; modules inside the rooms are not.
"""

from locant.lazy import lazy_exports

__all__ = lazy_exports(__name__)
