"""What a model cannot be exported to is known before it is trained, and is what the exports say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_models import build

from locant.errors import ConfigError
from locant.interop import export_ctranslate2, export_huggingface
from locant.interop.refusals import export_refusals
from locant.models import DecodingSettings, save_model_folder
from locant.text import TokenizerPair


@pytest.mark.parametrize(
    "changes",
    [{}, {"norm": "pre"}, {"position": "rotary"}, {"position": "alibi"}, {"position": "cope", "feed_forward": "glu"}],
)
def test_what_is_refused_is_known_before(changes: dict[str, Any], joint: TokenizerPair, tmp_path: Path) -> None:
    model = build(joint, **changes)
    save_model_folder(tmp_path / "model", model, joint, DecodingSettings())
    refused = export_refusals(model.config)
    for name, export in {"ctranslate2 and argos": export_ctranslate2, "huggingface": export_huggingface}.items():
        if name in refused:
            with pytest.raises(ConfigError) as caught:
                export(tmp_path / "model", tmp_path / name)
            assert str(caught.value) == refused[name]
        else:
            export(tmp_path / "model", tmp_path / name)
