"""A small trained model for the pages that look into one."""

import pytest
import torch

from locant.app.explorer.model_panels import Reader
from locant.models import DecodingSettings, Transformer, TransformerConfig
from locant.text import TokenizerSettings, train_tokenizers, write_cache
from locant.translation import Translator

WORDS = {"one": "eins", "two": "zwei", "three": "drei", "four": "vier", "red": "rot"}
ENGLISH = [" ".join(list(WORDS)[(i * j + j) % 5] for j in range(1, 3 + i % 6)) for i in range(60)]
PAIRS = [(sentence, " ".join(WORDS[word] for word in sentence.split())) for sentence in ENGLISH]


@pytest.fixture(scope="session")
def translator() -> Translator:
    tokenizers = train_tokenizers(PAIRS, TokenizerSettings(vocab_size=26))
    size = tokenizers.source.vocab_size
    torch.manual_seed(1)
    config = {
        "source_vocab_size": size,
        "target_vocab_size": size,
        "encoder_layers": 1,
        "decoder_layers": 2,
        "d_model": 16,
        "d_ff": 32,
        "heads": 2,
        "tie_output": False,
    }
    model = Transformer(TransformerConfig.parse(config)).eval()
    with torch.no_grad():
        model.output.weight.mul_(3)
    return Translator(model, tokenizers, DecodingSettings(beam=3, max_length_extra=4))


@pytest.fixture(scope="session")
def reader(translator: Translator, tmp_path_factory: pytest.TempPathFactory) -> Reader:
    folder = tmp_path_factory.mktemp("run")
    translator.save_pretrained(folder / "model")
    write_cache(PAIRS, translator.tokenizers, folder / "model" / "cache" / "valid", max_tokens=64)
    return Reader.from_folder(folder / "model", device="cpu")
