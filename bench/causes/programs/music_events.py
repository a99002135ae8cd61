"""Hugging Face Trainer on a Mistral that writes piano music; the cause makes tokens of notes for each sample.

Each piece is transposed by chance. The fix has cut all pieces into tokens before the training, as
`datasets.map` does, and only moves the pitches.
"""
# causes: idle
import random
from typing import NamedTuple

import torch
from parts import use_gpu
from torch.utils.data import Dataset
from transformers import MistralConfig, MistralForCausalLM, Trainer, TrainingArguments
from trainer_turns import EndOfStep
from turns import Turns

BATCH, LENGTH, LAYERS, WIDTH, PIECES, NOTES = 16, 1024, 8, 640, 48, 700
BAR, POSITIONS, PITCHES, VELOCITIES, DURATIONS = 1920, 32, 128, 32, 64
# The first number of each kind of event.
AT_BAR, AT_POSITION = 1, 2
AT_PITCH = AT_POSITION + POSITIONS
AT_VELOCITY = AT_PITCH + PITCHES
AT_DURATION = AT_VELOCITY + VELOCITIES
WORDS = AT_DURATION + DURATIONS


class Note(NamedTuple):
    """A note of a MIDI file: times in ticks."""

    start: int
    pitch: int
    velocity: int
    length: int


def write_piece() -> list[Note]:
    """Notes by chance, in the order of a file with two tracks."""
    return [
        Note(random.randrange(NOTES * 60), random.randrange(24, 104), random.randrange(1, 128),
             random.randrange(30, 3000))
        for _ in range(NOTES)
    ]  # fmt: skip


def make_events(notes: list[Note], shift: int) -> list[int]:
    """Bars, positions, pitches, velocities and durations in the order of time (REMI)."""
    events, bar = [], -1
    for note in sorted(notes, key=lambda note: (note.start, note.pitch)):
        note = note._replace(pitch=min(max(note.pitch + shift, 0), PITCHES - 1))
        while bar < note.start // BAR:
            events.append(AT_BAR)
            bar += 1
        events.append(AT_POSITION + note.start % BAR * POSITIONS // BAR)
        events.append(AT_PITCH + note.pitch)
        events.append(AT_VELOCITY + note.velocity * VELOCITIES // 128)
        events.append(AT_DURATION + min(note.length * DURATIONS // 3000, DURATIONS - 1))
    return events


class Pieces(Dataset[dict[str, torch.Tensor]]):
    """A part of a piece, in another key."""

    def __init__(self, turns: Turns) -> None:
        random.seed(0)
        self.turns = turns
        self.pieces = [write_piece() for _ in range(PIECES)]
        self.ready = [torch.tensor(make_events(piece, 0)) for piece in self.pieces]

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        shift, number = index % 12 - 6, index % PIECES
        if self.turns.planted:
            events = torch.tensor(make_events(self.pieces[number], shift))
        else:
            events = self.ready[number]
            pitched = (events >= AT_PITCH) & (events < AT_VELOCITY)
            events = events + shift * pitched
        first = index % (len(events) - LENGTH)
        words = events[first : first + LENGTH]
        return {"input_ids": words, "labels": words}


def run(turns: Turns) -> None:
    use_gpu(turns)
    config = MistralConfig(
        vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=10,
        num_key_value_heads=10, intermediate_size=4 * WIDTH, sliding_window=None, use_cache=False,
        pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    arguments = TrainingArguments(
        output_dir="/tmp/music_events", per_device_train_batch_size=BATCH, max_steps=1_000_000,
        bf16=True, logging_steps=1_000_000, save_strategy="no", report_to=[],
        dataloader_num_workers=0, disable_tqdm=True, optim="adamw_torch_fused",
    )  # fmt: skip
    Trainer(
        model=MistralForCausalLM(config), args=arguments, train_dataset=Pieces(turns),
        callbacks=[EndOfStep(turns)],
    ).train()  # fmt: skip
