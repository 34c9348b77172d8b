"""Belief, slowly: one track at a time, in plain Python, as docs/simulated-value.md
describes it.
"""

import math


class Track:
    def __init__(self, near, y, half, kind, *, speed, score, height):
        self.x, self.u, self.y, self.half, self.kind = near, speed / 2, y, half, kind
        self.xx, self.xu, self.uu = noise(near), 0.0, 64.0
        self.hits, self.misses, self.age = 1, 0, 1
        self.score, self.height = score, height

    def move(self, speed, dt):
        self.x += (self.u - speed) * dt
        self.xx += 2 * dt * self.xu + dt * dt * self.uu + 0.05
        self.xu += dt * self.uu
        self.uu += 16 * dt * dt
        self.age += 1

    def correct(self, near, y, half):
        total = self.xx + noise(near)
        gain, speed_gain, error = self.xx / total, self.xu / total, near - self.x
        self.x += gain * error
        self.u = min(max(self.u + speed_gain * error, -20.0), 45.0)
        self.uu -= speed_gain * self.xu
        self.xx, self.xu = (1 - gain) * self.xx, (1 - gain) * self.xu
        self.y += 0.5 * (y - self.y)
        self.half += 0.5 * (half - self.half)

    def column(self):
        state = (
            self.x,
            self.u,
            self.xx,
            self.xu,
            self.uu,
            self.y,
            self.half,
            self.hits,
            self.misses,
            self.age,
        )
        return (*state, self.score, self.height, self.kind)


def noise(near):
    return (0.06 * max(near, 1.0) + 0.7) ** 2


def pairs(tracks, things, penalty):
    """Track and object that belong together, the nearest pair of all first."""
    costs = []
    for i, track in enumerate(tracks):
        for j, (near, y, _, kind, *_) in enumerate(things):
            apart = abs(math.log((max(track.x, 0) + 5) / (max(near, 0) + 5))) / 0.25
            aside = abs(track.y - y) / (1 + 0.05 * max(near, 0))
            if apart < 1 and aside < 1 and track.kind == kind:
                costs.append((apart + aside + penalty * track.misses, i, j))
    chosen = []
    for _, i, j in sorted(costs):
        if all(i != a and j != b for a, b in chosen):
            chosen.append((i, j))
    return chosen


class Belief:
    def __init__(self):
        self.tracks, self.frames, self.speed = [], 0, 0.0

    def see(self, speed, dt, things):
        """Things are (near, y, half, kind, score, height); None if the cheap mode did
        not run.
        """
        self.speed = speed
        if self.frames:
            for track in self.tracks:
                track.move(speed, dt)
        self.frames += 1
        if things is None:
            return
        found = pairs(self.tracks, things, 0.05)
        for track in self.tracks:
            track.misses += 1
        for i, j in found:
            near, y, half, _, score, height = things[j]
            track = self.tracks[i]
            track.correct(near, y, half)
            track.hits, track.misses, track.score, track.height = (
                track.hits + 1,
                0,
                score,
                height,
            )
        self.tracks = [t for t in self.tracks if t.misses <= 60 and -5 < t.x < 120]
        for j, (near, y, half, kind, score, height) in enumerate(things):
            if all(j != b for _, b in found):
                self.tracks.append(
                    Track(near, y, half, kind, speed=speed, score=score, height=height)
                )
        self.drop()

    def drop(self):
        """At most 64 tracks stay, those with the fewest misses."""
        fewest = sorted(range(len(self.tracks)), key=lambda i: self.tracks[i].misses)[
            :64
        ]
        self.tracks = [self.tracks[i] for i in sorted(fewest)]
