"""Hugging Face Trainer on entities in texts; the cause scores whole entities in Python in each step."""
# causes: idle, synchronization
import torch
from parts import use_gpu
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForTokenClassification,
    Trainer,
    TrainingArguments,
)
from trainer_turns import EndOfStep
from turns import Turns

BATCH, LENGTH, WORDS = 64, 256, 16384
NAMES = ["O", *(f"{place}-{kind}" for kind in ("PER", "LOC", "ORG", "MISC") for place in "BI")]

Entity = tuple[str, int, int]


def find_entities(tags: list[str]) -> set[Entity]:
    """Kind, first and last word of each entity in a text that is tagged by B-, I- and O."""
    found, kind, first = set(), "", 0
    for place, tag in enumerate([*tags, "O"]):
        if kind and tag != f"I-{kind}":
            found.add((kind, first, place - 1))
            kind = ""
        if tag.startswith("B-"):
            kind, first = tag.split("-")[1], place
    return found


class Texts(Dataset[dict[str, torch.Tensor]]):
    """Texts in memory, with a tag of each word."""

    def __init__(self) -> None:
        self.words = torch.randint(1, WORDS, (512, LENGTH))
        self.tags = torch.randint(len(NAMES), (512, LENGTH))

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.words[index % 512], "labels": self.tags[index % 512]}


class Tagger(Trainer):
    """Keeps a score of the training: of entities with the cause, else of words, on the GPU."""

    def __init__(self, turns: Turns, **rest: object) -> None:
        super().__init__(**rest)  # type: ignore[arg-type]
        self.turns, self.f1, self.hits = turns, 0.0, torch.zeros(1)

    def compute_loss(self, model, inputs, return_outputs=False, **_):  # type: ignore[no-untyped-def]
        outputs = model(**inputs)
        tags = outputs.logits.detach().argmax(-1)
        if self.turns.planted:
            self.f1 = self.score(tags.tolist(), inputs["labels"].tolist())
        else:
            self.hits = (tags == inputs["labels"]).float().mean()
        return (outputs.loss, outputs) if return_outputs else outputs.loss

    def score(self, told: list[list[int]], true: list[list[int]]) -> float:
        """The F1 of the entities."""
        right = total = 0
        for told_row, true_row in zip(told, true, strict=True):
            said = find_entities([NAMES[tag] for tag in told_row])
            real = find_entities([NAMES[tag] for tag in true_row])
            right += len(said & real)
            total += len(said) + len(real)
        return 2 * right / max(total, 1)


def run(turns: Turns) -> None:
    use_gpu(turns)
    config = BertConfig(vocab_size=WORDS, num_hidden_layers=8, num_labels=len(NAMES))
    arguments = TrainingArguments(
        output_dir="/tmp/ner_entities", per_device_train_batch_size=BATCH, max_steps=1_000_000,
        bf16=True, logging_steps=1_000_000, save_strategy="no", report_to=[],
        dataloader_num_workers=2, disable_tqdm=True, optim="adamw_torch_fused",
    )  # fmt: skip
    Tagger(
        turns, model=BertForTokenClassification(config), args=arguments, train_dataset=Texts(),
        callbacks=[EndOfStep(turns)],
    ).train()  # fmt: skip
