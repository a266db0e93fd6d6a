from __future__ import annotations

import pytest
import yaml

from locant.errors import ConfigError, DataError
from locant.training import Recipe, builtin_recipes, load_recipe, save_recipe
from locant.training.recipe import apply_overrides


def test_every_builtin_recipe_is_valid_and_described(tmp_path):
    text = ["corpus.kind=files", "corpus.train.source=a", "corpus.train.target=b"]
    for name, description in builtin_recipes().items():
        recipe = load_recipe(name, text if name == "translator" else [])
        assert description.endswith("."), name
        assert recipe.sized_model(100, 100).d_model > 0
        save_recipe(recipe, tmp_path / "r.yaml")
        assert load_recipe(tmp_path / "r.yaml") == recipe


def test_files_beside_a_recipe_are_found_from_anywhere(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    for name in ("a.en", "a.de", "data/b.tsv"):
        (tmp_path / name).write_text("x\ty\n")
    monkeypatch.chdir(tmp_path / "data")
    two = {"kind": "files", "train": {"source": ["a.en", "c.en"], "target": ["a.de", "c.de"]}}
    one = {"kind": "tsv", "folder": "data", "train": "b.tsv"}
    recipe = tmp_path / "r.yaml"
    for corpus in (two, one, {"kind": "mixture", "sources": {"x": {"corpus": two}, "y": {"corpus": one}}}):
        recipe.write_text(yaml.safe_dump({"corpus": corpus}))
        found = load_recipe(recipe).corpus
        for part in [found] if corpus["kind"] != "mixture" else [found.sources[name].corpus for name in "xy"]:
            if part.kind == "tsv":
                assert (part.folder, str(part.train[0])) == (tmp_path / "data", "b.tsv")
            else:
                assert [str(path) for path in part.train.source] == [str(tmp_path / "a.en"), "c.en"]
    recipe.write_text(yaml.safe_dump({"corpus": two}))
    assert str(load_recipe(recipe, ["corpus.folder=other"]).corpus.train.source[0]) == "a.en"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.stpes=5", "unknown key 'training.stpes'. Did you mean 'steps'?"),
        ("trainin.steps=5", "Did you mean 'training'?"),
        ("corpus.tarin=5", "Did you mean 'train'?"),
        ("model.d_modle=5", "Did you mean 'd_model'?"),
        ("model.preset=tyni", "Did you mean 'tiny'?"),
        ("model.position=sinusoidl", "Did you mean 'sinusoidal'?"),
        ("model.position_options.dialec=1", "Did you mean 'dialect'?"),
        ("model.heads=3", "not a multiple of heads"),
        ("model.source_vocab_size=3", "tokenizer.vocab_size"),
        ("training.steps=-1", "greater than or equal to 1"),
        ("training.steps=many", "integer"),
        (f"seed={2**63}", "'seed': Input should be less than"),
        ("tokenizer.vocab_size=2147483648", "'tokenizer.vocab_size': Input should be less than or equal"),
        ("training.clip_norm=2", "unknown key 'training.clip_norm'. It is called 'max_grad_norm' now."),
        ("training.accumulate=2", "It is called 'gradient_accumulation_steps' now."),
        ("decoding.n_best=9", "n_best"),
        ("training", "not of the form section.key=value"),
    ],
)
def test_wrong_keys_and_values_are_explained(recipe_data, override, message):
    with pytest.raises(ConfigError) as caught:
        Recipe.parse(apply_overrides(recipe_data, [override]), "recipe test")
    assert message in str(caught.value)


def test_learned_positions_must_cover_the_longest_sentence(recipe_data):
    changes = ["model.position=learned", "model.position_options.max_positions=50", "max_tokens=60"]
    with pytest.raises(ConfigError, match=r"max_tokens is 60, but .*max_positions is 50"):
        Recipe.parse(apply_overrides(recipe_data, changes))


def test_missing_and_malformed_recipes(tmp_path):
    with pytest.raises(ConfigError, match="Did you mean 'multi30k-en-de'"):
        load_recipe("multi30k-ende")
    with pytest.raises(DataError, match=r"none.yaml does not exist"):
        load_recipe(tmp_path / "none.yaml")
    (tmp_path / "bad.yaml").write_text("a: [1")
    with pytest.raises(ConfigError, match="not valid YAML"):
        load_recipe(tmp_path / "bad.yaml")
    (tmp_path / "list.yaml").write_text(yaml.safe_dump([1]))
    with pytest.raises(ConfigError, match="must be a mapping"):
        load_recipe(tmp_path / "list.yaml")


def test_a_key_that_stands_twice_is_an_error(tmp_path):
    source = "{corpus: {kind: tsv, train: a.tsv}}"
    path = tmp_path / "recipe.yaml"
    path.write_text(f"corpus:\n  kind: mixture\n  sources:\n    web: {source}\n    web: {source}\n")
    with pytest.raises(ConfigError, match=r"(?s)the key 'web'.*line 5, column 5"):
        load_recipe(path)
    path.write_text(f"corpus: {{kind: mixture, sources: {{web: {source}}}}}\n")
    with pytest.raises(ConfigError, match=r"the key 'web'"):
        load_recipe(path, [f"corpus.sources={{web: {source}, web: {source}}}"])
    assert load_recipe(path, ["corpus.sources.web.weight=5"]).corpus.sources["web"].weight == 5
