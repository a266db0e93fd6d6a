"""The card of a model: its training data, its scores and its intended use.

Every statement comes from the records of the run; of what they do not hold the card says that it is not recorded.
A published model folder carries them on in ``records.json``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from locant.errors import CheckpointError
from locant.files import explaining_damage, file_digest, read_json, write_json, write_text
from locant.parsing import parse_json, parse_yaml

CARD, RECORDS = "README.md", "records.json"

LOCANT_USE = """locant translate FOLDER "..."
```

```python
from locant.translation import Translator

Translator.from_pretrained("FOLDER").translate("...")"""
"""How to use a model in Locant's own format; a card's text about use begins and ends inside a block of code."""

_PUBLIC_CORPORA = ("bible", "huggingface")
_NOT_RECORDED = "not recorded"
_NAMED = 12  # languages of a model for many


def weights_digest(folder: Path) -> str:
    """Return the SHA-256 of the weights of a model folder."""
    return file_digest(folder / "model.safetensors")


def read_records(folder: Path) -> dict[str, Any]:
    """Return what a run, or a model saved from one, knows of itself; empty where nothing is known.

    Returns:
        ``data``: the content of ``data.json``; ``corpus_kind``: of the recipe; ``training``: steps, seconds and
        processor; ``evaluations``: names, scores and digests of the weights that were measured.

    Raises:
        CheckpointError: A record is damaged.
    """
    with explaining_damage(folder):
        return _records(folder)


def _records(folder: Path) -> dict[str, Any]:
    if not (folder / "data.json").is_file():
        found = read_json(folder / RECORDS) if (folder / RECORDS).is_file() else {}
        return found if isinstance(found, dict) else {}
    records: dict[str, Any] = {"data": read_json(folder / "data.json"), "evaluations": []}
    if (folder / "recipe.yaml").is_file():
        records["corpus_kind"] = _corpus_kind(folder / "recipe.yaml")
    if records.get("corpus_kind") not in _PUBLIC_CORPORA:
        # Where local files lie is nobody else's business, and these records are published.
        records["data"]["description"] = "local files."
    if rows := list(_timed_rows(folder / "metrics.jsonl")):
        records["training"] = {"steps": rows[-1]["step"], "seconds": rows[-1]["seconds"]}
        if (folder / "environment.json").is_file():
            environment = read_json(folder / "environment.json")
            records["training"]["processor"] = environment.get("cuda") or environment.get("processor")
    for path in sorted(folder.glob("evaluation.*.json")):
        evaluation = read_json(path)
        kept = ("name", "beam", "scores", "copy_scores", "weights", "parts")
        records["evaluations"].append({key: evaluation.get(key) for key in kept})
    return records


def write_card(folder: Path, origin: Path | None) -> None:
    """Write the card of a model folder, and the records that it was made from.

    Args:
        folder: The model folder.
        origin: The run or model folder that the model was loaded from; its own card is taken over where it has one.

    Raises:
        CheckpointError: A record is damaged, or the disk is full or not writable.
    """
    card = None
    if origin is not None and origin.is_dir():
        if records := read_records(origin):
            write_json(folder / RECORDS, records)
        if (origin / CARD).is_file():
            card = (origin / CARD).read_text(encoding="utf-8")
    write_text(folder / CARD, card or model_card(folder))


def model_facts(folder: Path) -> dict[str, str]:
    """Return what people ask first of a model: its languages, licence, training text and parameters.

    Args:
        folder: A run or model folder.

    Raises:
        CheckpointError: A record is damaged.
    """
    with explaining_damage(folder):
        data = read_records(folder).get("data", {})
        return {
            "languages": _named(folder, read_json(folder / "config.json"))[1],
            "licence": _licence(data),
            "training text": data.get("corpus") or _NOT_RECORDED,
            "parameters": _parameters(data),
        }


def model_card(folder: Path, use: str = LOCANT_USE) -> str:
    """Return the card of a model, Markdown with the metadata that the Hugging Face Hub reads.

    Args:
        folder: A run or model folder.
        use: How the model is used, the inside of a code block.

    Raises:
        CheckpointError: A record is damaged.
    """
    with explaining_damage(folder):
        return _card(folder, use)


def _card(folder: Path, use: str) -> str:
    config = read_json(folder / "config.json")
    records = read_records(folder)
    data = records.get("data", {})
    languages = [config.get("source_language"), config.get("target_language")]
    several, named = _named(folder, config)
    name = data.get("corpus") or "Translator"
    parts = [
        _metadata(several or [language for language in languages if language]),
        f"# {name}: {named}",
        f"{_kind(config['model'])}, made with Locant {config['version']}.",
        f"## Use\n\n```\n{use}\n```",
        "## Intended use\n\n" + _intended(f"between {named}" if several else _pair(languages), config),
        "## Training data\n\n" + _training_data(records),
        "## Scores\n\n" + _scores(records, weights_digest(folder)),
        "## Model\n\n" + _model(config["model"], data, records.get("training")),
        "## Licence\n\n" + _licence(data),
    ]
    return "\n\n".join(parts) + "\n"


def _named(folder: Path, config: dict[str, Any]) -> tuple[list[str], str]:
    """Return the languages of a model for several, and in words between which languages it translates."""
    several = list((read_json(folder / "tokenizer.json").get("languages") or {}).get("ids", {}))
    if several:
        more = ", ..." if len(several) > _NAMED else ""
        return several, f"{len(several)} languages ({', '.join(several[:_NAMED])}{more})"
    languages = [config.get("source_language"), config.get("target_language")]
    return [], " to ".join(language or "unknown language" for language in languages)


def _parameters(data: dict[str, Any]) -> str:
    return f"{data['parameters']:,}" if "parameters" in data else _NOT_RECORDED


def _kind(model: dict[str, Any]) -> str:
    if model.get("architecture", "transformer") == "transformer":
        return "An encoder-decoder Transformer (Vaswani et al. 2017, *Attention Is All You Need*)"
    return f"An encoder-decoder model ({model['architecture']})"


def _corpus_kind(path: Path) -> str | None:
    import yaml  # here and below: who translates writes no cards

    try:
        recipe = parse_yaml(path.read_text(encoding="utf-8"))
        return str(recipe["corpus"]["kind"])
    except (OSError, ValueError, yaml.YAMLError, KeyError, TypeError) as error:
        raise CheckpointError(f"The recipe {path} cannot be read: {error}") from None


def _timed_rows(path: Path) -> Iterator[dict[str, Any]]:
    if path.is_file():
        for line in path.read_text(encoding="utf-8").splitlines():
            # A crash may have cut the last line short.
            if line.endswith("}"):
                try:
                    row = parse_json(line)
                except ValueError as error:
                    raise CheckpointError(f"{path} is damaged: a line is not JSON ({error}).") from None
                if isinstance(row, dict) and row.get("kind") in ("training", "validation"):
                    yield row


def _metadata(languages: list[str]) -> str:
    about = {
        **({"language": list(dict.fromkeys(languages))} if languages else {}),
        "library_name": "locant",
        "pipeline_tag": "translation",
        "tags": ["locant", "translation", "transformer"],
    }
    import yaml

    return f"---\n{yaml.safe_dump(about, sort_keys=False)}---"


def _pair(languages: list[str | None]) -> str:
    return f"of {languages[0] or 'the source language'} into {languages[1] or 'the target language'}"


def _intended(what: str, config: dict[str, Any]) -> str:
    decoding = config["decoding"]
    usual = decoding.get("usual_source_length")
    often = (
        f" It has seldom seen more than {usual} tokens: longer sentences are better cut at a clause." if usual else ""
    )
    return (
        f"Translates single sentences {what}, of at most {decoding['max_source_length']} tokens, of the kind it was "
        f"trained on (below).{often} Of other kinds of text nothing was measured. Translations may be wrong, leave "
        "something out or add something; names and numbers should be checked."
    )


def _training_data(records: dict[str, Any]) -> str:
    data = records.get("data")
    if not data:
        return f"The training data is {_NOT_RECORDED}."
    tokens, cleaning = data["train_tokens"], data["cleaning"]
    removed = ", ".join(f"{count:,} {reason}" for reason, count in cleaning["removed"].items() if count)
    return "\n".join(
        [
            f"{data['corpus']}: {data['description']}",
            "",
            f"- pairs: {data['train_pairs']:,} for training, {data['valid_pairs']:,} for validation, "
            f"{data['test_pairs']:,} for the test",
            f"- tokens: {tokens['source']:,} source, {tokens['target']:,} target",
            f"- removed by cleaning, of {cleaning['total']:,} pairs: {removed or 'none'}",
        ]
    )


def _scores(records: dict[str, Any], digest: str) -> str:
    evaluations = records.get("evaluations", [])
    current = [evaluation for evaluation in evaluations if evaluation.get("weights") == digest]
    if not current:
        other = " (there are scores, but not of these weights)" if evaluations else ""
        return f"Scores of these weights are {_NOT_RECORDED}{other}; `locant evaluate` measures and records them."
    lines = [
        "| text | sentences | metric | score | source copied | signature |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for evaluation in current:
        texts = {evaluation["name"]: evaluation}
        for name, part in (evaluation.get("parts") or {}).items():
            texts[f"{evaluation['name']}: {name}{' (zero-shot)' if part.get('zero_shot') else ''}"] = part
        for name, text in texts.items():
            scores, copied = text["scores"], text["copy_scores"]
            for metric, key in (("BLEU", "bleu"), ("chrF", "chrf")):
                signature = scores[f"{key}_signature"].replace("|", "\\|")
                lines.append(
                    f"| {name} | {scores['n']:,} | {metric} | {scores[key]:.2f} | {copied[key]:.2f} | `{signature}` |"
                )
    beams = ", ".join(sorted({str(evaluation["beam"]) for evaluation in current}))
    return "\n".join(
        [*lines, "", f"Beam {beams}; sacreBLEU (Post 2018). *Source copied* is what doing nothing scores."]
    )


def _model(model: dict[str, Any], data: dict[str, Any], training: dict[str, Any] | None) -> str:
    rows = {"parameters": _parameters(data)}
    rows |= {key.replace("_", " "): str(value) for key, value in model.items() if value not in ({}, None)}
    rows["training"] = _NOT_RECORDED
    if training:
        rows["training"] = f"{training['steps']:,} updates in {training['seconds'] / 60:.1f} minutes"
        if training.get("processor"):
            rows["training"] += f" on {training['processor']}"
    return "\n".join(["| | |", "| --- | --- |", *(f"| {key} | {value} |" for key, value in rows.items())])


def _licence(data: dict[str, Any]) -> str:
    licence = data.get("licence")
    about = f"Training text: {licence}." if licence else f"The licence of the training text is {_NOT_RECORDED}."
    return f"{about} The licence of the weights is {_NOT_RECORDED}."
