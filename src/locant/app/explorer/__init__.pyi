from locant.app.explorer.server import build_app as build_app
from locant.app.explorer.server import open_server as open_server
from locant.app.explorer.server import require_packages as require_packages
from locant.app.explorer.server import serve as serve
from locant.runtime import listen as listen

__all__ = ["build_app", "serve"]
