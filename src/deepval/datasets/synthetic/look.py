"""Light and weather of a scene: how it looks, and what that does to a detector."""

from typing import NamedTuple

import numpy as np

from deepval.perception.simulated.simulation import Conditions

RGB = tuple[float, float, float]


class Weather(NamedTuple):
    """A kind of light or weather: how often, colours of sky, horizon and ground light, how far one sees, noise.

    `shift`, `haze_per_m` and `phantoms` are what it does to a detector's latent scores and phantoms.
    """

    share: float
    sky: RGB
    horizon: RGB
    light: float
    sight_m: float
    grain: float
    shift: float
    haze_per_m: float
    phantoms: float


WEATHERS: dict[str, Weather] = {
    "sun": Weather(0.42, (96, 148, 214), (196, 216, 232), 1.0, 900.0, 2.0, 0.1, 0.0, 1.0),
    "cloud": Weather(0.26, (150, 160, 172), (200, 205, 210), 0.8, 500.0, 2.5, 0.0, 0.0, 0.9),
    "rain": Weather(0.12, (112, 120, 130), (150, 156, 164), 0.55, 160.0, 5.0, -0.3, 0.006, 1.3),
    "fog": Weather(0.08, (182, 186, 190), (190, 194, 198), 0.75, 55.0, 3.0, -0.2, 0.016, 0.8),
    "dusk": Weather(0.07, (70, 72, 104), (206, 140, 96), 0.42, 350.0, 5.0, -0.35, 0.0, 1.2),
    "night": Weather(0.05, (12, 14, 24), (26, 28, 40), 0.2, 250.0, 5.0, -0.7, 0.004, 1.5),
}


class Look(NamedTuple):
    """A scene's weather, its brightness and the seed of its scenery."""

    weather: str
    brightness: float
    scenery: int


def look(rng: np.random.Generator) -> Look:
    """A scene's light and weather."""
    names = list(WEATHERS)
    share = np.array([WEATHERS[name].share for name in names])
    name = names[int(np.searchsorted(np.cumsum(share / share.sum()), rng.random()))]
    return Look(name, float(rng.uniform(0.88, 1.1)), int(rng.integers(2**31)))


def conditions_of(seen: Look, *, street: Conditions, clutter: float) -> Conditions:
    """What light and weather do to a detector in a street with its own phantoms."""
    weather = WEATHERS[seen.weather]
    phantoms = street.phantoms * weather.phantoms * clutter
    return Conditions(weather.shift, weather.haze_per_m, phantoms, street.phantom_size)
