"""The few numbers of a frame that are remembered, by name: demands, counts, nearest range, speed, and for how long."""

from deepval.geometry.motion import BrakingSettings

BRAKING = BrakingSettings()
"""The rule of docs/definitions.md, Braking controller."""
CORRIDORS_M: dict[str, float] = {
    "required": BRAKING.corridor_m,
    "required_wider_03": BRAKING.corridor_m + 0.3,
    "required_wider_08": BRAKING.corridor_m + 0.8,
    "required_narrower_04": BRAKING.corridor_m - 0.4,
}
"""Half-width of the corridor behind each of the demands."""
WINDOW = 8
"""Frames that are remembered, the current one included."""
NEAR_M = 10.0
"""Range at which an object adds one half to the proximity sum."""

QUANTITIES: dict[str, str] = {
    "required": "a_req, m/s²: largest deceleration that a used object in the corridor (1.2 m) requires, 0 if none",
    "required_wider_03": "a_req with the corridor 0.3 m wider on each side",
    "required_wider_08": "a_req with the corridor 0.8 m wider on each side",
    "required_narrower_04": "a_req with the corridor 0.4 m narrower on each side",
    "count": "number of used boxes",
    "corridor_count": "number of used objects in the corridor, 0 < range <= 80 m",
    "corridor_nearest_m": "smallest range of those objects, 80 if none",
    "ego_speed_mps": "ego speed",
    "proximity": "sum of 10 / (10 + max(range, 0)) over used objects",
}
"""What is remembered of each frame, by name, with its formula."""
PLACE = {name: place for place, name in enumerate(QUANTITIES)}
"""The column of each quantity."""


def stopping_mps2(range_m: float, speed_mps: float) -> float:
    """Deceleration that an object at this range requires at this speed."""
    if not speed_mps > 0:
        return 0.0
    room_m = range_m - BRAKING.standoff_m - BRAKING.reaction_s * speed_mps
    return min(speed_mps * speed_mps / (2 * room_m), BRAKING.limit_mps2) if room_m > 0 else BRAKING.limit_mps2
