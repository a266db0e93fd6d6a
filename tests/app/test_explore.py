"""The explorer: its formulas and its Transformer against Locant's own, its pages in a browser, and its server."""

import base64
import json
import math
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load

from locant.app.explore import Reader, open_server, page, page_model, save_page
from locant.cli import main
from locant.errors import CheckpointError, ConfigError, LocantError, UsageError
from locant.figures.spectrum import compare_scalings
from locant.models.hub import DEMO
from locant.models.model_folder import ModelFolder, load_model_folder, save_model_folder
from locant.models.transformer import Transformer
from locant.positions import SCHEMES, T5, ALiBi, Sandwich
from locant.positions.embeddings.sinusoidal import sinusoid_frequencies
from locant.translation import Translator

PAGES = ["", "positions", "order", "context", "translate"]
SENTENCES = ["seven hundred forty two", "nine", "two hundred seven forty"]


@pytest.fixture(scope="module")
def modules(chromium: Any) -> Iterator[Any]:
    """A page with the exports of formulas.js and transformer.js as names of its own."""
    names = ("web/tokenizer", "pages/formulas", "pages/transformer")
    sources = "\n".join((files("locant.app") / f"{name}.js").read_text("utf-8") for name in names)
    program = re.sub(r"^import .*\n", "", sources, flags=re.MULTILINE).replace("export ", "")
    tab = chromium.new_page()
    tab.add_script_tag(content=program)
    yield tab
    tab.close()


@pytest.mark.parametrize(("width", "base"), [(4, 10000), (64, 10000), (128, 500000)])
def test_codes_and_scores_are_those_of_locant(modules: Any, width: int, base: int) -> None:
    positions = torch.arange(200)
    angles = sinusoid_frequencies(width, base=base).angles(positions)
    codes = torch.stack((angles.sin(), angles.cos()), -1).flatten(-2)
    found = torch.tensor(modules.evaluate(f"range(200).map((position) => sinusoids(position, {width}, {base}))"))
    assert torch.allclose(found.double(), codes.double(), atol=1e-6)
    scores = torch.tensor(modules.evaluate(f"range(200).map((distance) => rotaryScore(distance, {width}, {base}))"))
    assert torch.allclose(scores.double(), angles.double().cos().mean(-1), atol=1e-6)


@pytest.mark.parametrize("heads", [4, 8, 16])
def test_biases_are_those_of_locant(modules: Any, heads: int) -> None:
    offsets = -torch.arange(300)
    for name, scheme in (("alibi", ALiBi(heads)), ("sandwich", Sandwich(heads))):
        found = modules.evaluate(
            f"range({heads}).map((head) => range(300).map((distance) => BIASES.{name}(distance, head, {heads})))"
        )
        assert torch.allclose(torch.tensor(found).double(), scheme.bias(offsets).double(), rtol=1e-6, atol=1e-6)
    buckets = T5(64, heads, causal=True).buckets(offsets)
    assert modules.evaluate("range(300).map((distance) => t5Bucket(distance))") == buckets.tolist()


@pytest.mark.parametrize(
    ("head", "base", "trained", "wanted"),
    [(128, 10000, 4096, 32768), (64, 500000, 8192, 131072), (96, 10000, 4096, 131072)],
)
def test_scalings_are_those_of_locant(modules: Any, head: int, base: int, trained: int, wanted: int) -> None:
    models = compare_scalings(head, float(base), trained, wanted)
    titles = modules.evaluate("Object.fromEntries(Object.entries(SCALINGS).map(([name, { title }]) => [name, title]))")
    names = {"linear": "position interpolation", "ntk": "NTK-aware", "yarn": "YaRN", "llama3": "Llama 3"}
    assert set(titles) == {"none", *names}
    for name, title in names.items():
        known = next(known for known in models if known.lower() in (title.lower(), titles[name].lower()))
        explanation, first_unseen = models[known]
        arguments = f"{head}, {base}, {trained}, {wanted}"
        found = torch.tensor(modules.evaluate(f"SCALINGS.{name}.of({arguments})"), dtype=torch.float64)
        wavelengths = torch.tensor([pair.scaled_wavelength for pair in explanation.pairs], dtype=torch.float64)
        assert torch.allclose(2 * math.pi / found, wavelengths, rtol=1e-9)
        assert modules.evaluate(f"firstUnseen('{name}', {arguments})") == first_unseen


def rounded(found: ModelFolder) -> ModelFolder:
    """The model with the weights that a page has."""
    weights = load(base64.b64decode(page_model(found)["weights"]))
    whole = {name: tensor.float() for name, tensor in weights.items() if not name.endswith(".scale")}
    scaled = {
        name: whole[name] * weights[f"{name}.scale"].float()[:, None] for name in whole if f"{name}.scale" in weights
    }
    found.model.load_state_dict(whole | scaled, strict=False)
    return found


def saved_model(folder: Path, like: Path, **changes: Any) -> Path:
    """A model with random weights."""
    found = load_model_folder(like, device="cpu")
    torch.manual_seed(1)
    model = Transformer(found.model.config.model_copy(update=changes))  # type: ignore[arg-type]
    save_model_folder(folder, model, found.tokenizers, found.decoding)
    return folder


@pytest.mark.parametrize("positions", [True, False])
@pytest.mark.parametrize("kind", ["numbers", "pre-norm, rotary", "post-norm, two vocabularies"])
def test_a_model_computes_in_the_page_what_it_computes_in_locant(
    modules: Any, model_folder: Path, tmp_path: Path, kind: str, positions: bool
) -> None:
    folder: Path | str = DEMO
    if kind == "pre-norm, rotary":
        folder = saved_model(tmp_path / "model", model_folder, norm="pre", position="rotary")
    elif kind != "numbers":
        changes = {"norm": "post", "position": "sinusoidal", "share_embeddings": False, "tie_output": False}
        folder = saved_model(tmp_path / "model", model_folder, **changes)
    model = load_model_folder(folder, device="cpu")
    sentences = SENTENCES if kind == "numbers" else ["two red three", "Dreadful, two!"]
    found = modules.evaluate(
        """async ([data, sentences, positions]) => {
            const model = new Transformer(data);
            return Promise.all(sentences.map((sentence) => model.read(sentence, { positions, temperature: 1.5 })));
        }""",
        [page_model(model), sentences, positions],
    )
    reader = Reader(rounded(model))
    for sentence, seen in zip(sentences, found, strict=True):
        wanted = reader.read(sentence, positions, 1.5, 0)
        for name in ("source", "written", "translation"):
            assert seen[name] == wanted[name]
        for name in ("states", "encoder", "decoder", "cross"):
            for mine, others in zip(seen[name], wanted[name], strict=True):
                assert torch.allclose(torch.tensor(mine), torch.tensor(others), atol=2e-4)
        for mine, others in zip(seen["candidates"], wanted["candidates"], strict=True):
            assert mine[0]["token"] == others[0]["token"]
            assert [one["share"] for one in mine] == pytest.approx([one["share"] for one in others], abs=1e-4)


@pytest.mark.parametrize(
    ("name", "value"), [("position", "alibi"), ("feed_forward", "swiglu"), ("position_options", {"base": 5000.0})]
)
def test_a_model_that_pages_do_not_compute_is_refused(
    model_folder: Path, tmp_path: Path, name: str, value: Any
) -> None:
    changes = {"position": "rotary", name: value}
    with pytest.raises(ConfigError, match=name):
        save_page(tmp_path / "page.html", saved_model(tmp_path / "model", model_folder, **changes))
    assert not (tmp_path / "page.html").exists()


def test_the_small_model_translates_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("demo").mkdir()  # a folder without a model hides nothing
    translator = Translator.from_pretrained("demo", device="cpu")
    assert translator.translate(["forty two", "three hundred ninety nine"]) == [
        "zwei und vierzig",
        "drei hundert neun und neunzig",
    ]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("pages") / "explorer.html"
    save_page(path)
    return path.as_uri()


@pytest.fixture(scope="module")
def address(model_folder: Path) -> Iterator[str]:
    with open_server(model_folder, port=0, device="cpu") as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture
def tab(chromium: Any) -> Iterator[Any]:
    """A tab in which nothing may go wrong."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    tab = context.new_page()
    wrong: list[str] = []
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    yield tab
    context.close()
    assert not wrong


def open_page(tab: Any, address: str, name: str) -> None:
    tab.goto("about:blank")
    tab.goto(f"{address}#{name}")
    tab.wait_for_selector("figure.first svg, figure.first .token")


@pytest.mark.parametrize("width", [390, 1280])
def test_every_page_opens_from_a_file_with_its_picture_first(tab: Any, saved: str, width: int) -> None:
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.set_viewport_size({"width": width, "height": 844})
    for name in PAGES:
        open_page(tab, saved, name)
        picture, knob = (tab.locator(which).first.bounding_box() for which in ("figure.first", ".knob"))
        assert picture["y"] < 422
        assert picture["y"] < knob["y"]
        assert tab.evaluate("document.documentElement.scrollWidth") == width
    assert all(url.startswith(("file:", "about:")) for url in asked)


def test_knobs_redraw_and_stand_in_the_address(tab: Any, saved: str) -> None:
    open_page(tab, saved, "positions")
    slider = tab.get_by_role("slider", name="Position")
    slider.focus()
    slider.press("ArrowRight")
    tab.wait_for_function("document.querySelector('figure.first h2').textContent.endsWith('position 6')")
    tab.get_by_role("combobox", name="Scheme").select_option("alibi")
    tab.wait_for_function("document.querySelector('figure.first h2').textContent === 'Bias by distance'")
    assert tab.url.endswith("#positions?scheme=alibi&position=6")
    open_page(tab, saved, "positions?scheme=gone&position=1e9&width=7&length=-3&base=x")
    assert tab.locator("figure.first h2").text_content() == "Clock hands at position 7"


def test_without_positions_two_sentences_become_one(tab: Any, saved: str) -> None:
    open_page(tab, saved, "order")
    translations = "figure.first strong"
    with_positions = tab.locator(translations).all_text_contents()
    assert with_positions == ["sieben hundert zwei und vierzig", "zwei hundert sieben und vierzig"]
    tab.get_by_role("checkbox", name="positions").uncheck()
    tab.wait_for_function("document.querySelector('figure.first h2').textContent.startsWith('Without')")
    assert len(set(tab.locator(translations).all_text_contents())) == 1


def test_words_that_the_small_model_does_not_know_are_named(tab: Any, saved: str) -> None:
    tab.goto(f"{saved}#translate")
    tab.get_by_role("textbox", name="Sentence").fill("seven dogs")
    tab.wait_for_function("document.querySelector('figure.first figcaption').textContent.includes('dogs')")


def test_play_steps_and_stops(tab: Any, saved: str) -> None:
    open_page(tab, saved, "positions")
    title = "document.querySelector('figure.first h2').textContent"
    before = tab.evaluate(title)
    tab.get_by_role("button", name="Play").click()
    tab.wait_for_function(f"{title} !== '{before}'")
    tab.get_by_role("button", name="Pause").click()
    assert tab.get_by_role("button", name="Play").is_visible()


def test_a_link_to_a_state_stands_still(chromium: Any, saved: str) -> None:
    tab = chromium.new_page(viewport={"width": 1280, "height": 900}, reduced_motion="no-preference")
    for name, button in (("positions", "Pause"), ("positions?position=9", "Play")):
        open_page(tab, saved, name)
        tab.get_by_role("button", name=button).wait_for()
    assert tab.locator("figure.first h2").text_content() == "Clock hands at position 9"
    tab.close()


def test_a_served_run_is_read_by_locant(tab: Any, address: str) -> None:
    open_page(tab, address, "translate?sentence=two+red+three")
    assert tab.locator("figure.first .word").first.text_content() == "two"
    open_page(tab, address, "positions?scheme=cope")
    assert tab.locator("figure.first h2").text_content() == "Change of every score"
    tab.goto(f"{address}#context")
    tab.get_by_role("textbox", name="config.json").fill('{"model_type": "llama", "hidden_size": 64, "rope_theta": 1e4}')
    tab.get_by_role("button", name="Read it").click()
    tab.locator(".said", has_text="layers").wait_for()


def ask(address: str, what: str, content: bytes, **headers: str) -> tuple[int, Any]:
    request = urllib.request.Request(address + what, content, headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_registered_scheme_is_computed(address: str, scheme: str) -> None:
    status, found = ask(address, "scheme", json.dumps({"scheme": scheme, "width": 16, "length": 12}).encode())
    assert status == 200, found
    assert torch.tensor(found["changes"]).shape == (12, 12)


QUESTION = {"sentence": "two red three", "positions": True, "temperature": 1.0, "seed": 0}


@pytest.mark.parametrize(
    ("what", "content", "status"),
    [
        ("read", json.dumps(QUESTION), 200),
        ("read", json.dumps(QUESTION | {"sentence": " "}), 400),
        ("read", json.dumps(QUESTION | {"sentence": "two " * 200}), 400),
        ("read", json.dumps(QUESTION | {"temperature": 0}), 400),
        ("read", json.dumps(QUESTION | {"other": 1}), 400),
        ("read", "[" * 100_000, 400),
        ("scheme", '{"scheme": "gone", "width": 4, "length": 4}', 400),
        ("scheme", '{"scheme": "rotary", "width": 4, "length": 1000000000}', 400),
        ("scheme", '{"scheme": ["rotary"], "width": 4, "length": 4}', 400),
        ("inspect", '{"config": "no JSON"}', 400),
        ("gone", "{}", 404),
    ],
)
def test_questions(address: str, what: str, content: str, status: int) -> None:
    found, said = ask(address, what, content.encode())
    assert found == status
    assert ("error" in said) == (status != 200)


def test_other_sites_are_refused(address: str) -> None:
    content = json.dumps(QUESTION).encode()
    assert ask(address, "read", content, Host="elsewhere.example")[0] == 403
    assert ask(address, "read", content, Origin="http://elsewhere.example")[0] == 403
    assert ask(address, "read", content, Origin=address.rstrip("/"))[0] == 200


def test_words_are_drawn_by_their_seed(address: str) -> None:
    questions = [QUESTION | {"temperature": 3.0, "seed": seed} for seed in (1, 1, 2, 3)]
    written = [ask(address, "read", json.dumps(one).encode())[1]["written"] for one in questions]
    assert written[0] == written[1]
    assert len({tuple(words) for words in written}) > 1


def test_the_command_writes_one_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "explorer.html"
    assert main(["explore", "--save", str(path)]) == 0
    assert path.read_text("utf-8") == page()
    assert main(["explore", "a-run", "--save", str(path)]) == 1
    assert "a-run" in capsys.readouterr().err


def test_a_server_that_cannot_be() -> None:
    with open_server(port=0) as server:
        port = server.server_port
        with pytest.raises(UsageError, match=str(port)):
            open_server(Path("missing-run"), port=port)  # before a model is looked for
    with pytest.raises(UsageError, match="70000"):
        open_server(port=70000)
    with pytest.raises(LocantError, match="not an address"):
        open_server(host="not an address", port=0)
    with pytest.raises(CheckpointError, match="missing-run"):
        open_server(Path("missing-run"), port=0)
