from locant.positions.huggingface.install import Installation as Installation
from locant.positions.huggingface.install import install as install
from locant.positions.huggingface.install import uninstall as uninstall

__all__ = ["install", "uninstall"]
