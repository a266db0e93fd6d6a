"""The explorer: a local web page whose knobs show what positional schemes do. Needs the extra ``explore``."""

from locant.app.explorer.server import build_app, listen, open_server, require_packages

__all__ = ["build_app", "listen", "open_server", "require_packages"]
