"""Lightning under whichever of its two package names is installed."""

try:
    from lightning import Callback, LightningModule, Trainer
except ImportError:
    from pytorch_lightning import Callback, LightningModule, Trainer

__all__ = ["Callback", "LightningModule", "Trainer"]
