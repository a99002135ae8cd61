"""How the programs of Hugging Face's Trainer take their turns."""

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
