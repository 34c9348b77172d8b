"""Longitude and latitude (WGS 84) -> easting and northing of a UTM zone, by Krüger's series to sixth order.

The series in the third flattening n is from Karney, "Transverse Mercator with an accuracy of a few nanometers"
(J. Geodesy 85, 2011), eq. 7 to 11 and 35.
"""

import numpy as np

from deepval.arrays import Float

SEMI_MAJOR_M, FLATTENING = 6378137.0, 1 / 298.257223563
SCALE, FALSE_EASTING_M, FALSE_NORTHING_SOUTH_M = 0.9996, 500_000.0, 10_000_000.0
N = FLATTENING / (2 - FLATTENING)
ECCENTRICITY = np.sqrt(FLATTENING * (2 - FLATTENING))
RECTIFYING_M = SEMI_MAJOR_M / (1 + N) * (1 + N**2 / 4 + N**4 / 64 + N**6 / 256)
"""A meridian's length divided by 2 pi."""
ALPHA = (
    N / 2 - 2 / 3 * N**2 + 5 / 16 * N**3 + 41 / 180 * N**4 - 127 / 288 * N**5 + 7891 / 37800 * N**6,
    13 / 48 * N**2 - 3 / 5 * N**3 + 557 / 1440 * N**4 + 281 / 630 * N**5 - 1983433 / 1935360 * N**6,
    61 / 240 * N**3 - 103 / 140 * N**4 + 15061 / 26880 * N**5 + 167603 / 181440 * N**6,
    49561 / 161280 * N**4 - 179 / 168 * N**5 + 6601661 / 7257600 * N**6,
    34729 / 80640 * N**5 - 3418889 / 1995840 * N**6,
    212378941 / 319334400 * N**6,
)


def utm_m(
    lon_lat_deg: Float[np.ndarray, "*batch 2"], zone: int, *, south: bool = False
) -> Float[np.ndarray, "*batch 2"]:
    """Easting and northing in a UTM zone (1 to 60) of points in longitude and latitude (degrees)."""
    ahead = np.radians(lon_lat_deg[..., 0] - (6 * zone - 183))
    tan = np.tan(np.radians(lon_lat_deg[..., 1]))
    # tan of the conformal latitude.
    sigma = np.sinh(ECCENTRICITY * np.arctanh(ECCENTRICITY * tan / np.hypot(1, tan)))
    conformal = tan * np.hypot(1, sigma) - sigma * np.hypot(1, tan)
    xi = np.arctan2(conformal, np.cos(ahead))
    eta = np.arcsinh(np.sin(ahead) / np.hypot(conformal, np.cos(ahead)))
    north, east = xi.copy(), eta.copy()
    for order, alpha in enumerate(ALPHA, start=1):
        north += alpha * np.sin(2 * order * xi) * np.cosh(2 * order * eta)
        east += alpha * np.cos(2 * order * xi) * np.sinh(2 * order * eta)
    offset_m = np.array([FALSE_EASTING_M, FALSE_NORTHING_SOUTH_M if south else 0.0])
    return SCALE * RECTIFYING_M * np.stack([east, north], axis=-1) + offset_m
