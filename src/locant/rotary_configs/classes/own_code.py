"""Facts of models whose code comes with their checkpoints, and the functions that translate their entries for readers.

transformers has no class that could confirm them, so that :func:`locant.inspect` cannot ask one, and nothing of that
code is executed.
"""

from __future__ import annotations

import contextlib
import difflib
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from locant.errors import ConfigError
from locant.positions.scaling.fields import Fields, Finding, in_json
from locant.rotary_configs.classes import own_entries, own_formats, own_layers, telechat
from locant.rotary_configs.classes.hunyuan import hunyuan
from locant.rotary_configs.classes.model_types import ModelType
from locant.rotary_configs.classes.own_entries import Findings
from locant.rotary_configs.classes.sub_configs import is_type_of_transformers, types_of_transformers

UNKNOWN_TYPE: Final = "unknown model type"
"""Code of the finding about a model type that transformers does not know."""

_NEAR = 0.85
"""How alike two names of model types are, up to 1, of which one was meant by the other."""

_LINEAR = """
comba delta_net gated_deltanet gated_deltaproduct gla gsa hgrn hgrn2 kda lightnet linear_attn mesa_net mom
precond_gated_deltanet precond_kda samba
"""
_LINEAR_ATTENTION = tuple(_LINEAR.split())
"""Model types of flash-linear-attention whose layers rotate nothing, but for those of the group ``attn``."""

_AS_LLAMA = """
aquila aquila3 arctic bailing_moe_v2 codeshell cogvlm cogvlm2 deci Dream grinmoe grok-1 llada2_moe
llava_llama llava_mistral llava_qwen llava_qwen2 minicpmo mplug_owl2 nemotron-nas PanguProMoE phi3_v phi4mm SDAR sdar
sdar_moe skywork solar sparsellama step3_text xmodel zhinao
"""
_HALVES = tuple(_AS_LLAMA.split())
"""Model types whose code does with positions what Llama's does, or turns halves of the share that the file states."""

_Translation = Callable[[dict[str, Any], Findings], None]
_TRANSLATIONS: dict[str, _Translation] = {
    "chatglm": own_entries.chatglm,
    "openelm": own_entries.openelm,
    "nomic_bert": own_entries.nomic_bert,
    "phi3small": own_entries.phi3_small,
    "stablelm_epoch": own_entries.stablelm_epoch,
    "internlm": own_entries.internlm,
    "baichuan": own_entries.baichuan,
    "qwen": own_entries.qwen,
    "kimi_linear": own_entries.kimi_linear,
    "dbrx": own_entries.dbrx,
    "hf_olmo": own_entries.olmo,
    "llada": own_entries.olmo,
    "mpt": own_entries.mpt,
    "minimax_m3_vl_text": own_layers.minimax_m3,
    "gpt_oss": own_formats.gpt_oss,
    own_formats.PARAMS_JSON: own_formats.params_json,
    own_formats.DEEPSEEK_ARGS: own_formats.deepseek_args,
    own_formats.FROM_SCRATCH: own_formats.from_scratch,
    own_formats.TENCENT_PRETRAIN: own_formats.tencent_pretrain,
    "moonshine": own_entries.moonshine,
    "deepseek": own_entries.deepseek,
    "smallthinker": own_layers.smallthinker,
    "stripedhyena": own_layers.stripedhyena,
    "step3p5": own_layers.step3p5,
    "plamo3": own_layers.plamo3,
    "ultrabert": own_layers.ultrabert,
    "mistral_large4_text": own_layers.mistral_large4,
    "mimo_v2_flash": own_layers.mimo_v2,
    "deepseek_v4": own_layers.deepseek_v4,
    "clvp_encoder": own_entries.clvp_encoder,
    "dots3_note_text": own_layers.dots3_note,
    "neobert": own_entries.neobert,
    **dict.fromkeys(("wav2vec2-bert", "wav2vec2-conformer"), own_entries.conformer),
    "zamba2": own_entries.zamba2,
    "new": own_entries.gte_new,
    "telechat": telechat.telechat,
    "telechat2": telechat.telechat,
    "telechat3": telechat.telechat3,
    "mixformer-sequential": own_entries.mixformer,
    "phi-msft": own_entries.mixformer,
    "ernie4_5_vl_moe_text": own_entries.ernie_vl,
    "hunyuan": hunyuan,
    "hunyuan_v1_dense": hunyuan,
    "hunyuan_v1_moe": hunyuan,
    "hunyuan_vl_text": hunyuan,
    **dict.fromkeys(_LINEAR_ATTENTION, own_layers.linear_attention),
}


def in_usual_names(content: Mapping[str, Any], findings: Findings) -> Mapping[str, Any]:
    """Return the entries of a config.json under the names that transformers has for them.

    Args:
        content: The text part of config.json.
        findings: Where findings go.

    Raises:
        ConfigError: An entry stands for something that no rotary configuration expresses, or is wrong.
    """
    translate = _TRANSLATIONS.get(str(content.get("model_type")))
    if translate is None:
        return content
    given = dict(content)
    translate(given, findings)
    return given


class _Asked(dict[str, Any]):
    """An empty file that notes which entries a translation asks for."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.names.add(name)
        return super().get(name, default)

    def pop(self, name: str, default: Any = None) -> Any:
        self.names.add(name)
        return super().pop(name, default)

    def __contains__(self, name: object) -> bool:
        self.names.add(str(name))
        return super().__contains__(name)


@functools.cache
def _asked_by(model_type: str) -> frozenset[str]:
    """Return the entries that the code of a model type is known to read, each by its name there."""
    given = _Asked()
    with contextlib.suppress(ConfigError):  # where it needs one of them
        _TRANSLATIONS[model_type](given, [])
    return frozenset(given.names)


def read_by_other_code(part: Fields, names: Iterable[str], kind: ModelType) -> Iterator[Finding]:
    """Yield warnings about entries that a class passes over and the code of other model types reads, and take them.

    Args:
        part: The text part of config.json.
        names: Entries that nobody read.
        kind: The facts of the class.
    """
    for name in names:
        readers = [each for each in _TRANSLATIONS if name in _asked_by(each)]
        if not readers or name not in part.untaken():
            continue
        shown = in_json(part.get(name))
        yield Finding(
            "warning",
            f"'{name}' in config.json is {shown:.60}, which the class of '{kind.name}' in transformers "
            f"passes over; the code of '{readers[0]}' reads it.",
            "Say it by an entry that the class reads, or load the model with that code, if the weights were trained "
            "so.",
        )


def needs_code(config: Mapping[str, Any]) -> list[Finding]:
    """Return that transformers loads a file by code which is no part of it, if its model type is such a one.

    Args:
        config: The content of config.json.
    """
    name, code = config.get("model_type"), config.get("auto_map")
    if not isinstance(name, str) or name not in OWN_CODE or is_type_of_transformers(name):
        return []
    named = code.get("AutoConfig") if isinstance(code, Mapping) else None
    if named is not None:
        return [
            Finding(
                "note",
                f"transformers has no class of the model type '{name}': it loads the file by the code that auto_map "
                f"names ({str(named).rpartition('--')[2].partition('.')[0]:.60}), and refuses it without "
                "trust_remote_code. What is shown is what that code does as it was published.",
                "Load it with trust_remote_code=True, once you have read that code.",
            )
        ]
    names = "names no code for it in auto_map" if not code else "has no AutoConfig in auto_map"
    return [
        Finding(
            "warning",
            f"transformers has no class of the model type '{name}', and the file {names}: it refuses the file, unless "
            "the publisher's own package was imported first. What is shown is what the published code does.",
            "State auto_map as the publisher has it, with the code beside the file, and trust_remote_code=True.",
        )
    ]


def type_of_nobody(config: Mapping[str, Any]) -> list[Finding]:
    """Return that a file has a model type which transformers does not know, and names no code for it, if that is so.

    Args:
        config: The content of config.json.
    """
    name, code = config.get("model_type"), config.get("auto_map")
    is_told = not isinstance(name, str) or name in OWN_CODE  # of which another finding tells
    if is_told or is_type_of_transformers(name) or (isinstance(code, Mapping) and "AutoConfig" in code):
        return []
    meant = _type_meant(str(name))
    question = f" Did you mean '{meant}'?" if meant else ""
    names = "names no code for it in auto_map" if not code else "has no AutoConfig in auto_map"
    return [
        Finding(
            "warning",
            f"transformers 5.24 has no class of the model type {name!r:.60}, and the file {names}: it refuses the "
            f"file, unless a package that has one was imported first.{question} What is shown is read from the entries "
            "alone.",
            "Name a model type of transformers whose class reads these entries, or the code that does in auto_map.",
            UNKNOWN_TYPE,
        )
    ]


def _type_meant(name: str) -> str | None:
    """Return the model type of transformers that a name is a part of, or nearly; ``None`` for a name unlike all."""
    known = {each.replace("-", "_").lower(): each for each in types_of_transformers()}
    plain = name.replace("-", "_").lower()
    longer = [each for each in known if each.endswith(f"_{plain}")]
    near = longer if len(longer) == 1 else difflib.get_close_matches(plain, known, n=1, cutoff=_NEAR)
    return known[near[0]] if near else None


def _half(**defaults: Any) -> dict[str, Any]:
    return {"defaults": defaults, "rotates_partly": True}


OWN_CODE: dict[str, ModelType] = {
    name: ModelType(name, **facts)
    for name, facts in {
        "chatglm": {"layout": "interleaved", **_half(num_attention_heads=32, hidden_size=4096)},
        own_formats.PARAMS_JSON: {"layout": "interleaved", **_half(rope_theta=10000.0)},
        own_formats.FROM_SCRATCH: _half(rope_theta=10000.0),
        own_formats.DEEPSEEK_ARGS: {"layout": "interleaved", **_half(rope_theta=10000.0)},
        own_formats.TENCENT_PRETRAIN: {"layout": "interleaved", **_half(rope_theta=10000.0)},
        own_formats.FLA_TRANSFORMER: _half(rope_theta=10000.0, hidden_size=2048, num_heads=32),
        "timesfm2_5": _half(rope_theta=10000.0, head_dim=80, num_hidden_layers=20),  # of transformers, of series
        "lasr_encoder": _half(
            rope_theta=10000.0, hidden_size=512, num_attention_heads=8, num_hidden_layers=17
        ),  # sound
        **{  # of transformers, of sound
            f"wav2vec2-{name}": _half(
                rope_theta=10000.0, hidden_size=64 * heads, num_attention_heads=heads, num_hidden_layers=layers
            )
            for name, heads, layers in (("bert", 16, 24), ("conformer", 12, 12))
        },
        "openelm": _half(head_dim=128),
        "plamo3": _half(),
        "phi3small": _half(rope_theta=1e6, hidden_size=4096, num_attention_heads=32),
        "stablelm_epoch": _half(rope_theta=10000.0, partial_rotary_factor=0.25),
        "internlm": _half(rope_theta=10000.0),
        "internlm2": _half(rope_theta=10000.0),
        "baichuan": _half(rope_theta=10000.0),
        "qwen": _half(rope_theta=10000.0),
        "kimi_k2": {
            "layout": "interleaved",
            "can_turn_to_halves": True,
            **_half(rope_theta=50000.0, qk_rope_head_dim=64),  # as its class, DeepSeek-V3's, has it
        },
        "hunyuan": _half(rope_theta=10000.0),
        "xverse": _half(rope_theta=10000.0),
        "orion": _half(rope_theta=10000.0),
        "deepseek": _half(rope_theta=10000.0),
        "minicpm": _half(rope_theta=10000.0),
        "hf_olmo": _half(rope_theta=10000.0, n_layers=32, n_heads=32),
        "llada": _half(rope_theta=10000.0),
        "smallthinker": _half(rope_theta=10000.0),
        "minimax_text_01": _half(rope_theta=10_000_000.0),
        "minimax_m1": _half(rope_theta=10_000_000.0),
        "neobert": {"layout": "interleaved", **_half(rope_theta=10000.0)},
        "bailing_moe": _half(rope_theta=10000.0),  # Ling-lite, Ling-plus (modeling_bailing_moe.py)
        "yuan": _half(rope_theta=10000.0),  # Yuan 2.0 (yuan_hf_model.py), with a filter before the projections
        "stripedhyena": _half(rope_theta=10000.0),
        "sundial": _half(rope_theta=10000.0),  # (modeling_sundial.py)
        "time_moe": _half(rope_theta=10000.0),  # (modeling_time_moe.py)
        **{name: _half(rope_theta=10000.0) for name in _LINEAR_ATTENTION},
        "mimo": _half(rope_theta=10000.0),  # (modeling_mimo.py, whose base is Qwen2's)
        "minicpmv": _half(rope_theta=10000.0),  # MiniCPM-V 2 to 2.6, with the entries of the language model
        "molmo": _half(rope_theta=10000.0),  # (modeling_molmo.py)
        "PanguEmbedded": _half(rope_theta=10000.0),  # openPangu-Embedded (modeling_openpangu_dense.py)
        "RefinedWeb": _half(rope_theta=10000.0),  # Falcon-40B as first published (modelling_RW.py)
        "RefinedWebModel": _half(rope_theta=10000.0),  # Falcon-7B
        "mixformer-sequential": _half(rope_theta=10000.0, rotary_dim=32),
        "phi-msft": _half(rope_theta=10000.0, rotary_dim=32),
        "progen": {"layout": "interleaved", **_half(rope_theta=10000.0)},  # ProGen 2, as GPT-J (modeling_progen.py)
        "codet5p_module": {"layout": "interleaved", **_half(rope_theta=10000.0)},  # CodeT5+ of 2B to 16B, as CodeGen
        "deepseek_vl_v2": {"text_part": ("language_config",), "text_type": "deepseek_v2"},
        # MOSS-TTS-Nano (gpt2_decoder.py): the part has the model type gpt2, whose class has learned positions
        "moss_tts_nano": {
            "text_part": ("gpt2_config",),
            "text_type": "moss_tts_nano_gpt2",
            "has_one_text_type": True,
        },
        "moss_tts_nano_gpt2": {"layout": "interleaved", **_half(rope_theta=10000.0, n_embd=768, n_head=12)},
        "ernie4_5_moe_vl": {"text_type": "ernie4_5_vl_moe_text"},
        "telechat": _half(rope_theta=10000.0),
        "telechat2": _half(rope_theta=10000.0),
        "telechat3": _half(rope_theta=10000.0),
        "new": _half(rope_theta=10000.0, hidden_size=768, num_attention_heads=12),  # gte, Arctic-Embed-M (modeling.py)
        **{name: _half(rope_theta=10000.0) for name in _HALVES},
        # without rotary positions
        "gpt_refact": {"rotates": False},
        **{name: {"rotates": False} for name in ("phi4flash", "rwkv5", "rwkv6", "rwkv7")},
    }.items()
}
"""Facts of model types that transformers has no class for."""
