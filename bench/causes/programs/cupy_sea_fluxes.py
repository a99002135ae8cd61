"""Heat fluxes of the sea in CuPy; the cause runs the bulk formulae as a chain of operations.

The fix lets cupy.fuse make one kernel of them.
"""

# causes: unfused_elementwise
import cupy as cp
from turns import Turns

ROWS, COLUMNS, HEIGHT, ROUNDS = 4096, 6144, 10.0, 2


def draw_fields() -> list[cp.ndarray]:
    """Wind, temperatures of sea and air, and humidity of the air."""
    shape = (ROWS, COLUMNS)
    wind, sea, air, humidity = (cp.random.random(shape, dtype=cp.float32) for _ in range(4))
    return [1 + 14 * wind, 275 + 25 * sea, 273 + 26 * air, 0.4 + 0.5 * humidity]


def compute_fluxes(
    wind: cp.ndarray, sea: cp.ndarray, air: cp.ndarray, humidity: cp.ndarray
) -> cp.ndarray:
    """The net flux by bulk formulae; the transfer coefficients follow the stability."""
    wet_sea = 0.62 * cp.exp(17.3 * (sea - 273.0) / (sea - 36.0)) * 6.1 / 1013.0
    wet_air = humidity * 0.62 * cp.exp(17.3 * (air - 273.0) / (air - 36.0)) * 6.1 / 1013.0
    warmer, wetter = sea - air, wet_sea - wet_air
    speed = cp.sqrt(wind * wind + 0.25)
    drag = 0.001 + 0.00007 * speed
    for _ in range(ROUNDS):
        friction = cp.sqrt(drag) * speed
        depth = 9.8 * 0.4 * HEIGHT * warmer / (air * (friction * friction + 0.001))
        stable = 1.0 / (1.0 + 0.05 * cp.abs(depth))
        loose = cp.sqrt(1.0 + 0.16 * cp.abs(depth))
        shape = cp.where(warmer > 0, loose, stable)
        rough = 0.011 * friction * friction / 9.8 + 0.00001
        drag = 0.16 * shape / cp.square(cp.log(HEIGHT / rough))
    sensible = 1.2 * 1004.0 * drag * speed * warmer
    latent = 1.2 * 2500000.0 * drag * speed * wetter
    glow = 0.97 * 0.0000000567 * (sea * sea * sea * sea - 0.8 * air * air * air * air)
    return sensible + latent + glow


def smooth(flux: cp.ndarray, filters: cp.ndarray) -> cp.ndarray:
    """The flux at some scales, by the Fourier transform."""
    spectrum = cp.fft.rfft2(flux)
    return cp.stack([cp.fft.irfft2(spectrum * each, flux.shape).mean(1) for each in filters])


def make_filters() -> cp.ndarray:
    rows = cp.fft.fftfreq(ROWS)[:, None]
    columns = cp.fft.rfftfreq(COLUMNS)[None]
    radius = rows * rows + columns * columns
    return cp.stack([cp.exp(-radius * scale**2) for scale in (4, 16, 64)]).astype(cp.float32)


def run(turns: Turns) -> None:
    turns.synchronize = cp.cuda.runtime.deviceSynchronize
    cp.random.seed(0)
    wind, sea, air, humidity = draw_fields()
    filters, fused = make_filters(), cp.fuse()(compute_fluxes)
    while turns.step():
        compute = compute_fluxes if turns.planted else fused
        flux = compute(wind, sea, air, humidity)
        sea -= 0.0000001 * flux
        smooth(flux, filters)
