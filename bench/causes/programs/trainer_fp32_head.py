"""Hugging Face Trainer on a Qwen2 in bf16; the cause computes the scores of all words in fp32 without TF32.

A head in fp32 keeps the probabilities of a training and of its sampler alike. It leaves autocast
for one product with the weights of 32,000 words. The fix allows TF32 there.
"""

# causes: no_tensor_cores
import torch
from parts import use_gpu
from torch.utils.data import Dataset
from transformers import Qwen2Config, Qwen2ForCausalLM, Trainer, TrainingArguments
from trainer_turns import EndOfTf32Step
from turns import Turns

BATCH, LENGTH, LAYERS, WIDTH, WORDS, TEXTS = 4, 1024, 6, 1024, 32_000, 256

Text = dict[str, torch.Tensor]


class Answers(Dataset[Text]):
    """Answers as numbers of words, ready on the CPU."""

    def __init__(self) -> None:
        self.words = torch.randint(WORDS, (TEXTS, LENGTH))

    def __len__(self) -> int:
        return 10_000_000

    def __getitem__(self, index: int) -> Text:
        words = self.words[index % TEXTS]
        return {"input_ids": words, "labels": words}


class Policy(Qwen2ForCausalLM):
    """A language model whose last product is in fp32."""

    def forward(self, input_ids=None, labels=None, **_):  # type: ignore[no-untyped-def]
        states = self.model(input_ids=input_ids, use_cache=False).last_hidden_state
        with torch.autocast("cuda", enabled=False):
            rows = states[:, :-1].flatten(0, 1).float()
            scores = torch.nn.functional.linear(rows, self.lm_head.weight)
            loss = torch.nn.functional.cross_entropy(scores, labels[:, 1:].flatten())
        return {"loss": loss}


def run(turns: Turns) -> None:
    use_gpu(turns)
    config = Qwen2Config(
        vocab_size=WORDS, hidden_size=WIDTH, num_hidden_layers=LAYERS, num_attention_heads=16,
        num_key_value_heads=16, intermediate_size=2816, max_position_embeddings=LENGTH,
        use_cache=False, tie_word_embeddings=False,
    )  # fmt: skip
    arguments = TrainingArguments(
        output_dir="/tmp/trainer_fp32_head", per_device_train_batch_size=BATCH, bf16=True,
        max_steps=1_000_000, logging_steps=1_000_000, save_strategy="no", report_to=[],
        dataloader_num_workers=2, disable_tqdm=True, optim="adamw_torch_fused",
        remove_unused_columns=False,
    )  # fmt: skip
    Trainer(
        model=Policy(config), args=arguments, train_dataset=Answers(),
        callbacks=[EndOfTf32Step(turns)],
    ).train()  # fmt: skip
