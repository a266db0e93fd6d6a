"""The text of a run: opened, prepared and aligned by one process for all others, and what is told of it."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from locant.files import replacing_file
from locant.models.encoder_decoder import EncoderDecoder
from locant.models.transformer import count_parameters
from locant.text import (
    Corpus,
    PreparedData,
    TokenizerPair,
    TokenLinks,
    prepare,
    prepared_links,
    sampling_shares,
    summarize_plan,
)
from locant.text.doubts import Doubt
from locant.text.vocabulary import Pairs
from locant.text.workers import usable_processes
from locant.training import parallel, run_folder
from locant.training.callback import PartReport, PreparedReport, TrainingCallback
from locant.training.finetuning import FineTuning
from locant.training.recipe import Recipe, run_text_store

_ALIGNED_ALONE = 100_000
"""Most pairs whose links one process makes symmetric."""


def open_corpus(recipe: Recipe, folder: Path, callback: TrainingCallback, *, prepares: bool) -> Corpus:
    """Read the corpus on the first process of each folder; the others then find what is large of it read."""
    store = run_text_store(folder, callback.on_preparing)
    mine: list[Corpus] = []
    parallel.on_some_processes(prepares or parallel.rank() == 0, lambda: mine.append(recipe.open_corpus(store)))
    return mine[0] if mine else recipe.open_corpus(store)


def prepare_data(
    recipe: Recipe,
    corpus: Corpus,
    folder: Path,
    *,
    resume: bool,
    finetuning: FineTuning | None,
    callback: TrainingCallback,
    prepares: bool,
) -> PreparedData:
    """Prepare the data on the first process, then once on each machine that does not share the folder.

    The others read what these wrote.
    """

    def prepared(resume: bool, make_tokenizers: Callable[[Pairs], TokenizerPair] | None = None) -> PreparedData:
        return prepare(
            corpus,
            recipe.cleaning,
            recipe.tokenizer,
            max_tokens=recipe.max_tokens,
            folder=folder,
            resume=resume,
            made_before=run_folder.recorded_fingerprint(folder) if resume else None,
            make_tokenizers=make_tokenizers or (finetuning.tokenizers if finetuning else None),
            progress=callback.on_preparing,
        )

    def first() -> dict[str, bytes]:
        for stale in (folder / "cache").glob("sampled-*"):  # left by a killed process
            shutil.rmtree(stale)
        # Those of the model, also where what was prepared is there no more.
        mine.append(prepared(resume, (lambda _: TokenizerPair.load(folder)) if resume else None))
        if finetuning and not resume:
            finetuning.keep_start()
        return {path.name: path.read_bytes() for path in folder.glob("tokenizer.*")}

    def elsewhere() -> None:
        for name, content in models.items():
            with replacing_file(folder / name) as temporary:
                temporary.write_bytes(content)
        mine.append(prepared(resume, lambda _: TokenizerPair.load(folder)))

    mine: list[PreparedData] = []
    models = parallel.from_first_process(first)
    parallel.on_some_processes(prepares, elsewhere)
    data = mine[0] if mine else prepared(resume=True)
    vocabulary = hashlib.sha256(data.tokenizers.source.model + data.tokenizers.target.model).hexdigest()
    parallel.require_same({"the text": data.fingerprint, "the vocabulary": vocabulary, "the pairs": str(data.sizes)})
    return data


def align_data(data: PreparedData, folder: Path, callback: TrainingCallback, *, prepares: bool) -> TokenLinks:
    """Align the training text on the first process of each folder; the others read what it wrote."""
    place, text = folder / "cache" / "links", data.train
    processes = usable_processes() if len(text) > _ALIGNED_ALONE else 1

    def align() -> None:
        callback.on_preparing("aligning", 0.0)
        prepared_links(text, place, made_from=data.fingerprint, processes=processes)

    parallel.on_some_processes(prepares or parallel.rank() == 0, align)
    return TokenLinks(place, len(text), data.fingerprint)


def report_data(
    recipe: Recipe, corpus: Corpus, doubts: Sequence[Doubt], data: PreparedData, model: EncoderDecoder[Any]
) -> PreparedReport:
    """Return what will be trained on what."""
    first = data.epochs(recipe.seed).drawn(0)
    plan = summarize_plan(first.source.lengths, first.target.lengths, recipe.batches, seed=recipe.seed, epoch=0)
    parts = _parts(corpus, data)
    tokenizers = data.tokenizers
    return PreparedReport(
        corpus=corpus.name,
        description=corpus.description,
        licence=corpus.licence,
        source_language=corpus.source_language,
        target_language=corpus.target_language,
        cleaning=data.report.to_dict(),
        train_pairs=len(data.train),
        valid_pairs=len(data.valid),
        test_pairs=len(data.test_pairs or ()),
        train_tokens={side: sum(part.train_tokens[side] for part in parts) for side in ("source", "target")},
        vocabulary={"source": tokenizers.source.vocab_size, "target": tokenizers.target.vocab_size},
        batches_per_epoch=plan.batches,
        padding_waste={"source": plan.padding_waste[0], "target": plan.padding_waste[1]},
        parameters=count_parameters(model),
        trained_parameters=sum(one.numel() for one in model.parameters() if one.requires_grad),
        parts=parts,
        languages=corpus.languages,
        zero_shot=tuple(part.name for part in corpus.parts if part.zero_shot),
        fingerprint=data.fingerprint,
        doubts=[asdict(doubt) for doubt in doubts],
    )


def _parts(corpus: Corpus, data: PreparedData) -> list[PartReport]:
    """Return what is trained on in each part of the corpus."""
    reports, end = [], 0
    shares = [sampling_shares(data.sizes, weights, data.temperature) for weights in data.weights]
    for number, (part, rows) in enumerate(zip(corpus.parts, data.train.parts, strict=True)):
        start, end = end, end + rows.pairs
        lengths = {"source": data.train.source.lengths, "target": data.train.target.lengths}
        reports.append(
            PartReport(
                name=part.name,
                cleaning=data.reports[part.name].to_dict(),
                valid_pairs=data.valid.parts[number].pairs,
                test_pairs=len(data.tests.get(part.name, ())),
                train_tokens={side: int(column[start:end].sum()) for side, column in lengths.items()},
                shares=[stage[number] for stage in shares],
            )
        )
    return reports
