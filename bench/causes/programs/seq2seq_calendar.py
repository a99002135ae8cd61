"""Electric loads of three days ahead by a GRU that knows the calendar; the cause makes a tensor of each hour's date.

The fix makes the tensors of all hours before the decoder's loop.
"""
# causes: many_small_copies, synchronization, host_bound
from datetime import datetime, timedelta

import torch
import torch.nn as nn
from parts import use_gpu
from turns import Turns

METERS = 512
PAST, HORIZON = 168, 72
HIDDEN = 512
device = torch.device("cuda")


class Decoder(nn.Module):
    """Steps through the hours to come, each from the load that it found before."""

    def __init__(self):
        super().__init__()
        self.hour = nn.Embedding(24, 16)
        self.weekday = nn.Embedding(7, 8)
        self.month = nn.Embedding(12, 8)
        self.cell1 = nn.GRUCell(1 + 32, HIDDEN)
        self.cell2 = nn.GRUCell(HIDDEN, HIDDEN)
        self.out = nn.Linear(HIDDEN, 1)

    def calendar(self, hour, weekday, month):
        features = [self.hour(hour), self.weekday(weekday), self.month(month)]
        return torch.cat(features, dim=-1).expand(METERS, -1)

    def tensors_of(self, date):
        return (
            torch.tensor(date.hour, device=device),
            torch.tensor(date.weekday(), device=device),
            torch.tensor(date.month - 1, device=device),
        )

    def tensors_of_all(self, dates):
        hours = torch.tensor([date.hour for date in dates], device=device)
        weekdays = torch.tensor([date.weekday() for date in dates], device=device)
        months = torch.tensor([date.month - 1 for date in dates], device=device)
        return list(zip(hours.unbind(), weekdays.unbind(), months.unbind()))

    def forward(self, load, states, dates, at_once):
        h1, h2 = states
        known = self.tensors_of_all(dates) if at_once else None
        found = []
        for t, date in enumerate(dates):
            parts = known[t] if at_once else self.tensors_of(date)
            x = torch.cat([load, self.calendar(*parts)], dim=1)
            h1 = self.cell1(x, h1)
            h2 = self.cell2(h1, h2)
            load = load + self.out(h2)
            found.append(load)
        return torch.cat(found, dim=1)


class Forecaster(nn.Module):
    """A GRU over the past, then the decoder."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.GRU(1, HIDDEN, num_layers=2, batch_first=True)
        self.decoder = Decoder()

    def forward(self, past, dates, at_once):
        _, states = self.encoder(past)
        return self.decoder(past[:, -1], states.unbind(0), dates, at_once)


def run(turns: Turns) -> None:
    use_gpu(turns)
    model = Forecaster().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    loads = torch.rand(METERS, 4000, device=device)
    first = datetime(2023, 1, 1)

    step = 0
    while turns.step():
        begin = 24 * (step % 100)
        step += 1
        past = loads[:, begin : begin + PAST, None]
        future = loads[:, begin + PAST : begin + PAST + HORIZON]
        dates = [first + timedelta(hours=begin + PAST + hour) for hour in range(HORIZON)]
        optimizer.zero_grad()
        loss = nn.functional.l1_loss(model(past, dates, at_once=not turns.planted), future)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
