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
    TrainingArguments,
)
from trainer_turns import EndOfStep
from turns import Turns

BATCH, LENGTH, LAYERS, WIDTH, WORDS, REACTIONS = 160, 128, 4, 640, 320, 1600
PAD, END, UNKNOWN = 0, 1, 2
# The pattern of the Molecular Transformer.
ATOMS = re.compile(
    r"(\[[^\]]+]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\(|\)|\.|=|#|-|\+|\\|\/|:|~|@|\?|>|\*|\$"
    r"|\%[0-9]{2}|[0-9])"
)
PIECES = (
    "[CH3]", "[CH2]", "[CH]", "[C]", "[C@H]", "[C@@H]", "[NH2]", "[NH]", "[N]", "[N+]", "[OH]", "[O]",
    "[O-]", "[S]", "[F]", "[Cl]", "[Br]", "[Si]", "[cH]", "[c]", "[n]", "[nH]", "[o]", "[s]",
)  # fmt: skip
BONDS = tuple("=#-/.")
# The number that follows an atom from one side of a reaction to the other.
MAP = re.compile(r"\[([^\]:]+):\d+\]")
HYDROGENS = re.compile(r"^\[([BCNOPSFIbcnops]|Cl|Br)H?[1-4]?\]$")

Texts = tuple[str, str]
Rows = tuple[list[int], list[int]]


class Cutter:
    """Texts to numbers of atoms, bonds and rings."""

    def __init__(self) -> None:
        known = {self.name_atom(piece) for piece in PIECES} | set("()=#-/.123456789")
        self.numbers = {piece: number for number, piece in enumerate(sorted(known), start=3)}

    def name_atom(self, piece: str) -> str:
        """An atom without brackets, if its hydrogens follow from its bonds."""
        plain = HYDROGENS.match(piece) if piece[0] == "[" else None
        return plain[1] if plain else piece

    def cut(self, smiles: str) -> list[int]:
        smiles = MAP.sub(r"[\1]", smiles)
        pieces = ATOMS.findall(smiles)
        if "".join(pieces) != smiles:
            raise ValueError(smiles)
        names = [self.name_atom(piece) for piece in pieces[: LENGTH - 1]]
        return [*(self.numbers.get(name, UNKNOWN) for name in names), END]


class Reactions(Dataset[Texts]):
    """Products and what they are made of."""

    def __init__(self) -> None:
        random = Random(0)
        self.texts = [(self.draw(random), self.draw(random)) for _ in range(REACTIONS)]

    def draw(self, random: Random) -> str:
        """Atoms with their maps, and a bond or a branch before some of them."""
        pieces = []
        for number in range(random.randint(LENGTH // 2, LENGTH - 40)):
            if random.random() < 0.3:
                pieces.append(random.choice(BONDS))
            pieces.append(random.choice(PIECES).replace("]", f":{number}]"))
        return "".join(pieces)

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
