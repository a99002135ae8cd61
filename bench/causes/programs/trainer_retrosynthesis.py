"""Hugging Face Trainer on a Pegasus that splits molecules into what they are made of; the cause cuts SMILES by a pattern.

Its collator does so for each batch anew. The fix cuts all texts once, before the training.
"""
# causes: idle
import re
from random import Random

import torch
from parts import use_gpu
from torch.utils.data import Dataset
from transformers import (
    PegasusConfig,
    PegasusForConditionalGeneration,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)
from turns import Turns

BATCH, LENGTH, LAYERS, WIDTH, WORDS, REACTIONS = 128, 128, 4, 640, 320, 1536
PAD, END, UNKNOWN = 0, 1, 2
# The pattern of the Molecular Transformer.
ATOMS = re.compile(
    r"(\[[^\]]+]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\(|\)|\.|=|#|-|\+|\\|\/|:|~|@|\?|>|\*|\$"
    r"|\%[0-9]{2}|[0-9])"
)
PIECES = (
    *"CNOSPFIcnos()=#-123456", "Br", "Cl", "[C@H]", "[C@@H]", "[nH]", "[O-]", "[N+]", "[Si]", "/", "\\",
)  # fmt: skip

Texts = tuple[str, str]
Rows = tuple[list[int], list[int]]


class Cutter:
    """Texts to numbers of atoms, bonds and rings."""

    def __init__(self) -> None:
        self.numbers = {piece: number for number, piece in enumerate(PIECES, start=3)}

    def cut(self, smiles: str) -> list[int]:
        pieces = ATOMS.findall(smiles)
        if "".join(pieces) != smiles:
            raise ValueError(smiles)
        numbers = [self.numbers.get(piece, UNKNOWN) for piece in pieces[: LENGTH - 1]]
        return [*numbers, END]


class Reactions(Dataset[Texts]):
    """Products and what they are made of."""

    def __init__(self) -> None:
        random = Random(0)
        self.texts = [(self.draw(random), self.draw(random)) for _ in range(REACTIONS)]

    def draw(self, random: Random) -> str:
        return "".join(random.choices(PIECES, k=random.randint(LENGTH - 24, LENGTH + 8)))

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> Texts:
        return self.texts[index % REACTIONS]


class Collator:
    """Joins reactions to a batch, padded to LENGTH."""

    def __init__(self, turns: Turns, cutter: Cutter, texts: list[Texts]) -> None:
        self.turns, self.cutter = turns, cutter
        self.ready = {pair: self.cut_pair(pair) for pair in texts}

    def cut_pair(self, pair: Texts) -> Rows:
        product, parts = pair
        return self.cutter.cut(product), self.cutter.cut(parts)

    def __call__(self, pairs: list[Texts]) -> dict[str, torch.Tensor]:
        take = self.cut_pair if self.turns.planted else self.ready.__getitem__
        rows = [take(pair) for pair in pairs]
        words = torch.tensor([self.pad(product, PAD) for product, _ in rows])
        labels = torch.tensor([self.pad(parts, -100) for _, parts in rows])
        return {"input_ids": words, "labels": labels}

    def pad(self, row: list[int], value: int) -> list[int]:
        return row + [value] * (LENGTH - len(row))


class EndOfStep(TrainerCallback):
    """Ends each step of the turns."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        turns.step()

    def on_step_end(self, args, state, control, **_):  # type: ignore[no-untyped-def]
        if not self.turns.step():
            control.should_training_stop = True
        return control


def run(turns: Turns) -> None:
    use_gpu(turns)
    reactions = Reactions()
    config = PegasusConfig(
        vocab_size=WORDS, d_model=WIDTH, encoder_layers=LAYERS, decoder_layers=LAYERS,
        encoder_attention_heads=10, decoder_attention_heads=10, encoder_ffn_dim=4 * WIDTH,
        decoder_ffn_dim=4 * WIDTH, max_position_embeddings=LENGTH, pad_token_id=PAD,
        eos_token_id=END, decoder_start_token_id=PAD, use_cache=False,
    )  # fmt: skip
    arguments = TrainingArguments(
        output_dir="/tmp/trainer_retrosynthesis", per_device_train_batch_size=BATCH,
        max_steps=1_000_000, bf16=True, logging_steps=1_000_000, save_strategy="no", report_to=[],
        dataloader_num_workers=0, disable_tqdm=True, optim="adamw_torch_fused",
        logging_nan_inf_filter=False, remove_unused_columns=False,
    )  # fmt: skip
    Trainer(
        model=PegasusForConditionalGeneration(config), args=arguments, train_dataset=reactions,
        data_collator=Collator(turns, Cutter(), reactions.texts), callbacks=[EndOfStep(turns)],
    ).train()  # fmt: skip
