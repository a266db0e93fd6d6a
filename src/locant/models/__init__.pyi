from locant.models.architectures import ModelConfig as ModelConfig
from locant.models.architectures import build_model as build_model
from locant.models.architectures import config_class as config_class
from locant.models.architectures import parse_model_config as parse_model_config
from locant.models.architectures import require_transformer as require_transformer
from locant.models.attention import CrossAttention as CrossAttention
from locant.models.attention import DecoderCache as DecoderCache
from locant.models.attention import KeyValueCache as KeyValueCache
from locant.models.attention import SelfAttention as SelfAttention
from locant.models.attention import StackCache as StackCache
from locant.models.config import PRESETS as PRESETS
from locant.models.config import TransformerConfig as TransformerConfig
from locant.models.config import preset as preset
from locant.models.decoding_settings import DecodingSettings as DecodingSettings
from locant.models.decoding_settings import SamplingSettings as SamplingSettings
from locant.models.encoder_decoder import DecoderState as DecoderState
from locant.models.encoder_decoder import EncoderDecoder as EncoderDecoder
from locant.models.encoder_decoder import EncoderDecoderConfig as EncoderDecoderConfig
from locant.models.language_model import LanguageModel as LanguageModel
from locant.models.language_model import LanguageModelConfig as LanguageModelConfig
from locant.models.model_folder import ModelFolder as ModelFolder
from locant.models.model_folder import load_model_folder as load_model_folder
from locant.models.model_folder import save_model_folder as save_model_folder
from locant.models.rnn import RNN as RNN
from locant.models.rnn import AdditiveAttention as AdditiveAttention
from locant.models.rnn import RNNConfig as RNNConfig
from locant.models.transformer import Transformer as Transformer
from locant.models.transformer import count_parameters as count_parameters

__all__ = [
    "RNN",
    "DecodingSettings",
    "LanguageModel",
    "LanguageModelConfig",
    "Transformer",
    "TransformerConfig",
    "count_parameters",
    "load_model_folder",
    "preset",
    "save_model_folder",
]
