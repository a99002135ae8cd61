"""Hugging Face Trainer on a Whisper; the cause is a training in fp32 without TF32, as by default.

The fix allows TF32, as `tf32=True` of the arguments does.
"""
# causes: no_tensor_cores
import torch
from parts import use_gpu
from torch.utils.data import Dataset
from transformers import (
    Trainer,
    TrainingArguments,
    WhisperConfig,
    WhisperForConditionalGeneration,
)
from trainer_turns import EndOfTf32Step
from turns import Turns

BATCH, LAYERS, WIDTH, FRAMES, WORDS, LENGTH = 8, 4, 512, 3000, 4096, 96

Sample = dict[str, torch.Tensor]


class Speech(Dataset[Sample]):
    """The same spectra again and again, ready on the CPU."""

    def __init__(self) -> None:
        self.sounds = torch.randn(16, 80, FRAMES)
        self.words = torch.randint(WORDS, (16, LENGTH))

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> Sample:
        place = index % len(self.sounds)
        return {"input_features": self.sounds[place], "labels": self.words[place]}


def run(turns: Turns) -> None:
    use_gpu(turns)
    config = WhisperConfig(
        vocab_size=WORDS, d_model=WIDTH, encoder_layers=LAYERS, decoder_layers=LAYERS,
        encoder_attention_heads=8, decoder_attention_heads=8, encoder_ffn_dim=4 * WIDTH,
        decoder_ffn_dim=4 * WIDTH, pad_token_id=0, bos_token_id=1, eos_token_id=2,
        decoder_start_token_id=1, use_cache=False,
    )  # fmt: skip
    arguments = TrainingArguments(
        output_dir="/tmp/trainer_whisper", per_device_train_batch_size=BATCH, max_steps=1_000_000,
        logging_steps=1_000_000, save_strategy="no", report_to=[], dataloader_num_workers=2,
        disable_tqdm=True, optim="adamw_torch_fused",
    )  # fmt: skip
    Trainer(
        model=WhisperForConditionalGeneration(config), args=arguments, train_dataset=Speech(),
        callbacks=[EndOfTf32Step(turns)],
    ).train()  # fmt: skip
