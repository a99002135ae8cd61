"""How the programs of Hugging Face's Trainer take their turns."""

import torch
from transformers import TrainerCallback
from turns import Turns


class EndOfStep(TrainerCallback):
    """Ends each step of the turns."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        turns.step()

    def on_step_end(self, args, state, control, **_):  # type: ignore[no-untyped-def]
        if not self.turns.step():
            control.should_training_stop = True
        return control


class EndOfTf32Step(TrainerCallback):
    """Ends each step of the turns; TF32 is off with the cause."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.go_on()

    def go_on(self) -> bool:
        goes_on = self.turns.step()
        torch.backends.cuda.matmul.allow_tf32 = not self.turns.planted
        return goes_on

    def on_step_end(self, args, state, control, **_):  # type: ignore[no-untyped-def]
        if not self.go_on():
            control.should_training_stop = True
        return control
