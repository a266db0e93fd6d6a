from locant.server.app import build_app as build_app
from locant.server.models import ModelPlace as ModelPlace
from locant.server.models import Models as Models
from locant.server.models import load_models as load_models
from locant.server.serving import serve as serve
from locant.server.settings import LimitSettings as LimitSettings
from locant.server.settings import ServerSettings as ServerSettings

__all__ = ["ModelPlace", "ServerSettings", "build_app", "load_models", "serve"]
