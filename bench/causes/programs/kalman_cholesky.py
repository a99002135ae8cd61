"""A Kalman filter over many series; the cause is a factorization that asks for its errors each time."""
# causes: synchronization
import torch
from parts import DEVICE, use_gpu
from turns import Turns

SERIES, STATE, TIMES = 8192, 16, 24


def run(turns: Turns) -> None:
    use_gpu(turns)
    identity = torch.eye(STATE, device=DEVICE).expand(SERIES, STATE, STATE)
    transition = identity + 0.01 * torch.randn(SERIES, STATE, STATE, device=DEVICE)
    noise = 0.1 * identity
    measured = torch.randn(TIMES, SERIES, STATE, 1, device=DEVICE)
    while turns.step():
        mean, covariance = torch.zeros_like(measured[0]), identity
        for values in measured:
            mean = transition @ mean
            covariance = transition @ covariance @ transition.mT + noise
            if turns.planted:
                factor = torch.linalg.cholesky(covariance + noise)
            else:
                factor, _ = torch.linalg.cholesky_ex(covariance + noise)
            half = torch.linalg.solve_triangular(factor, covariance, upper=False)
            gain = torch.linalg.solve_triangular(factor.mT, half, upper=True).mT
            mean = mean + gain @ (values - mean)
            covariance = covariance - gain @ covariance
            covariance = 0.5 * (covariance + covariance.mT)
