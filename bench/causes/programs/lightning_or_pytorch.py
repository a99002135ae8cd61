"""Lightning under whichever of its two package names is installed."""

try:
    from lightning import LightningModule, Trainer
except ImportError:
    from pytorch_lightning import LightningModule, Trainer

__all__ = ["LightningModule", "Trainer"]
