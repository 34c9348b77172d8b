"""The slow and obvious twins of IDM and PDM-Closed: one proposal, one object and one
moment at a time, with shapely.

They take the lanes to follow and what is comfortable from the package, which has other
tests of that, and nothing else.
"""

import itertools
import math

import numpy as np
import shapely
from shapely.affinity import translate
from shapely.geometry import LineString, Point, Polygon

from deepval.driving.planners import routes
from deepval.driving.planners.observation import BICYCLE, PEDESTRIAN, STATIC, VEHICLE
from deepval.driving.planners.roads import roads_of
from deepval.driving.planners.scoring import comfortable
from reference import tracking


def rectangle(x, y, heading, length, width):
    c, s = math.cos(heading), math.sin(heading)
    corners = [
        (length / 2, width / 2),
        (length / 2, -width / 2),
        (-length / 2, -width / 2),
        (-length / 2, width / 2),
    ]
    return Polygon([(x + a * c - b * s, y + a * s + b * c) for a, b in corners])


def footprint(vehicle, pose):
    """The ego's polygon by its rear axle."""
    x, y = centre(vehicle, pose)
    return rectangle(x, y, pose[2], vehicle.length_m, vehicle.width_m)


def centre(vehicle, pose):
    return pose[0] + vehicle.centre_m * math.cos(pose[2]), pose[
        1
    ] + vehicle.centre_m * math.sin(pose[2])


class SlowPath:
    def __init__(self, vertices):
        self.vertices = [list(vertex) for vertex in vertices]
        for before, after in itertools.pairwise(self.vertices):
            after[2] = before[2] + math.remainder(after[2] - before[2], 2 * math.pi)
        self.arc = [0.0]
        for before, after in itertools.pairwise(self.vertices):
            self.arc.append(self.arc[-1] + math.dist(before[:2], after[:2]))
        self.length = self.arc[-1]
        self.line = LineString([vertex[:2] for vertex in self.vertices])

    def at(self, progress, least=0.0):
        progress = min(max(progress, least), self.length)
        for place in range(1, len(self.arc)):
            if self.arc[place] >= progress:
                break
        low, high = self.vertices[place - 1], self.vertices[place]
        gap = self.arc[place] - self.arc[place - 1]
        share = (progress - self.arc[place - 1]) / gap if gap else 0.0
        return [a + share * (b - a) for a, b in zip(low, high, strict=True)]

    def corridor(self, start, end, half_width):
        start, end = min(max(start, 0.0), self.length), min(max(end, 0.0), self.length)
        inner = [
            vertex[:2]
            for vertex, at in zip(self.vertices, self.arc, strict=True)
            if start < at < end
        ]
        return LineString([self.at(start)[:2], *inner, self.at(end)[:2]]).buffer(
            half_width, cap_style="square"
        )


def vertices(roads, lanes):
    return [vertex for lane in lanes for vertex in roads.pose[lane].tolist()]


def idm(situation, agents, *, start_lanes=2):
    """Poses (rear axle) and speeds of IDM, 17 of each."""
    roads, ego, vehicle = (
        roads_of(situation.lane_map),
        situation.ego,
        situation.ego.vehicle,
    )
    near = routes.lanes_of(roads, situation.route[:start_lanes])
    lane = routes.lane_held_or_nearest(roads, near, ego=ego, farthest_m=40)
    points = vertices(roads, routes.breadth_first_lanes(roads, situation.route, lane))
    path = SlowPath(
        [a for a, b in itertools.pairwise(points) if math.dist(a[:2], b[:2]) > 1e-6]
    )
    middle = Point(centre(vehicle, ego.pose))
    limit = roads.lanes[lane].speed_limit_mps
    target = max(10.0 if limit is None else limit, ego.speed_mps)
    things = []
    for k in range(len(agents)):
        if Point(agents.pose[k, :2]).distance(middle) < 40:
            speed = (
                0.0
                if agents.kind[k] == STATIC
                else float(np.hypot(*agents.velocity_mps[k]))
            )
            things.append(
                (
                    rectangle(*agents.pose[k], *agents.size_m[k]),
                    speed,
                    agents.pose[k, 2],
                )
            )
    for lane_id in situation.red_lights:
        if roads.lanes[roads.number[lane_id]].roadblock in situation.route:
            things += [(roads.polygon[roads.number[lane_id]], 0.0, 0.0)]
    x, v = LineString([point[:2] for point in points]).project(middle), ego.speed_mps
    poses, speeds = [], []
    for step in range(17):
        px, py, heading = path.at(x)
        rear = [
            px - vehicle.centre_m * math.cos(heading),
            py - vehicle.centre_m * math.sin(heading),
            heading,
        ]
        poses.append(rear)
        speeds.append(v)
        body = footprint(vehicle, ego.pose if step == 0 else rear)
        looked_at = shapely.union_all(
            [path.corridor(x, x + 8 * target, vehicle.width_m / 2), body]
        )
        ahead = [thing for thing in things if thing[0].intersects(looked_at)]
        if ahead:
            polygon, speed, direction = min(
                ahead, key=lambda thing: thing[0].distance(body)
            )
            lead = (
                polygon.distance(body),
                speed * math.cos(direction - (ego.pose[2] if step == 0 else heading)),
                0.0,
            )
        else:
            lead = path.length - x, 0.0, vehicle.length_m / 2
        gap = max(lead[0] - lead[2], 1.0)
        wanted = 1.0 + 1.5 * v + v * (v - lead[1]) / (2 * math.sqrt(3.0))
        change = min(max(1 - (v / target) ** 4 - (wanted / gap) ** 2, -3.0), 1.0)
        x, v = x + 0.5 * v, max(0.0, v + 0.5 * change)
    return np.array(poses), np.array(speeds)


class Seen:
    """The observation of PDM-Closed: polygons at every 0.2 s."""

    def __init__(self, situation, agents, roads, route_lanes):
        ego = situation.ego
        middle, body = (
            Point(centre(ego.vehicle, ego.pose)),
            footprint(ego.vehicle, ego.pose),
        )
        rows = []
        for rank, (kind, most) in enumerate(
            [(STATIC, 50), (VEHICLE, 50), (PEDESTRIAN, 25), (BICYCLE, 10)]
        ):
            away = [
                (Point(agents.pose[k, :2]).distance(middle), k)
                for k in range(len(agents))
                if agents.kind[k] == kind
            ]
            rows += [(rank, k) for far, k in sorted(away)[:most] if far <= 50]
        self.tokens, self.maps, self.speed, self.heading, self.static = (
            [],
            [[] for _ in range(42)],
            {},
            {},
            set(),
        )
        for rank, k in rows:
            token, heading = f"object {k}", agents.pose[k, 2]
            velocity = agents.velocity_mps[k] if rank else np.zeros(2)
            speed = float(np.hypot(*velocity))
            along = heading
            if (
                speed
                and abs(
                    math.remainder(
                        heading - math.atan2(velocity[1], velocity[0]), 2 * math.pi
                    )
                )
                >= math.pi / 2
            ):
                along = heading + math.pi
            polygon = rectangle(*agents.pose[k], *agents.size_m[k])
            for j in range(42):
                way = 0.2 * j * speed
                self.maps[j].append(
                    translate(polygon, way * math.cos(along), way * math.sin(along))
                )
            self.tokens.append(token)
            self.speed[token], self.heading[token] = speed, heading
            if rank == 0:
                self.static.add(token)
        for lane in route_lanes:
            if roads.ids[lane] in situation.red_lights:
                self.tokens.append(f"red_light {lane}")
                for polygons in self.maps:
                    polygons.append(roads.polygon[lane])
        self.trees = [shapely.STRtree(polygons) for polygons in self.maps]
        self.collided = {
            token
            for token, polygon in zip(self.tokens, self.maps[0], strict=True)
            if (
                polygon.contains(body)
                if token.startswith("red")
                else polygon.intersects(body)
            )
        }

    def meeting(self, j, shape):
        """(token, polygon) of all that meet a shape in a map, in the order of the
        spatial index.
        """
        return [
            (self.tokens[k], self.maps[j][k])
            for k in self.trees[j].query(shape, predicate="intersects")
        ]


class SlowGuide:
    def __init__(self, path, ego, reach):
        self.path = path
        self.start = path.line.project(Point(ego.pose[:2]))
        self.corridor = path.corridor(
            self.start, self.start + reach, ego.vehicle.width_m / 2
        )


def leader(guide, seen, vehicle, progress, j, buffer):
    """Writes the leader of one proposal into the buffer (progress, speed, rear length)
    of its path.
    """
    pose = guide.path.at(progress, 1e-5)
    body = footprint(vehicle, pose)
    best = None
    for token, polygon in seen.meeting(j, guide.corridor):
        if (
            token not in seen.collided
            and guide.path.line.project(polygon.centroid) > progress
        ):
            distance = polygon.distance(body)
            if best is None or distance < best[0]:
                best = distance, token
    if best is None:
        buffer[0], buffer[2] = guide.path.length, vehicle.length_m / 2
        return
    buffer[0] = progress + best[0]
    if not best[1].startswith("red"):
        buffer[1] = seen.speed[best[1]] * math.cos(seen.heading[best[1]] - pose[2])


def followed(state, lead, target):
    x, v = state
    gap = max(lead[0] - x - lead[2], 1.0)
    wanted = 1.0 + 1.5 * v + v * (v - lead[1]) / (2 * math.sqrt(1.5 * 3.0))
    change = min(max(1.5 * (1 - (v / target) ** 10 - (wanted / gap) ** 2), -3.0), 1.5)
    return x + 0.1 * v, v + 0.1 * change


def pdm(situation, agents):
    """Scores, choice, brake, poses and speeds of PDM-Closed."""
    roads, ego, vehicle = (
        roads_of(situation.lane_map),
        situation.ego,
        situation.ego.vehicle,
    )
    route = routes.corrected_route(roads, situation.route, ego)
    lane = routes.starting_lane(roads, route, ego=ego, farthest_m=50)
    route_lanes = routes.lanes_of(roads, route)
    centreline = SlowPath(vertices(roads, routes.shortest_lanes(roads, route, lane)))
    limit = roads.lanes[lane].speed_limit_mps
    targets = [
        share * (15.0 if limit is None else limit)
        for share in (0.2, 0.4, 0.6, 0.8, 1.0)
    ]
    guides = []
    for left in (0.0, -1.0, 1.0):
        moved = [
            (x - left * math.sin(h), y + left * math.cos(h), h)
            for x, y, h in centreline.vertices
        ]
        guides.append(SlowGuide(SlowPath(moved), ego, 8 * max(targets)))
    seen = Seen(situation, agents, roads, route_lanes)
    states = {
        (g, k): [(guides[g].start, ego.speed_mps)] for g in range(3) for k in range(5)
    }
    leads = {key: [0.0, 0.0, 0.0] for key in states}
    for index in range(1, 41):
        for g, guide in enumerate(guides):
            buffer = [0.0, 0.0, 0.0]
            for k in range(5):
                if index % 2 == 0:
                    leader(
                        guide, seen, vehicle, states[g, k][-1][0], index // 2, buffer
                    )
                    leads[g, k] = list(buffer)
                states[g, k].append(followed(states[g, k][-1], leads[g, k], targets[k]))
    start = np.array(
        [*ego.pose, ego.speed_mps, 0.0, ego.acceleration_mps2, 0.0, 0.0, 0.0, 0.0, 0.0]
    )
    simulated, comfort = [], []
    for (g, _), course in states.items():
        path = np.array([guides[g].path.at(x, 1e-5) for x, _ in course])
        simulated.append(tracking.simulated(path, start, vehicle.wheel_base_m))
        comfort.append(bool(comfortable(simulated[-1][None])[0]))
    scores, collision = scored(
        situation, roads, set(route_lanes), seen, simulated, comfort, centreline
    )
    best = max(range(15), key=lambda place: scores[place])
    brake = collision[best] <= 2.0 and ego.speed_mps <= 5.0
    if brake:
        v = ego.speed_mps
        c = (
            1.1 * (v + max(-10 * v, -4.05))
            if v > 0.2
            else min(max(-4 * v - ego.acceleration_mps2, -4.05), 2.4)
        )
        way = [
            (
                c * 0.1 * i * math.cos(ego.pose[2]),
                c * 0.1 * i * math.sin(ego.pose[2]),
                0.0,
            )
            for i in range(81)
        ]
        return scores, best, brake, ego.pose + np.array(way), np.full(81, c)
    g, k = divmod(best, 5)
    course, lead = states[g, k], leads[g, k]
    for index in range(41, 81):
        if index % 2 == 0:
            lead = [0.0, 0.0, 0.0]
            leader(guides[g], seen, vehicle, course[-1][0], index // 2, lead)
        course.append(followed(course[-1], lead, targets[k]))
    pose = np.array([guides[g].path.at(x, 1e-5) for x, _ in course])
    return scores, best, brake, pose, np.array([v for _, v in course])


def scored(situation, roads, route_lanes, seen, simulated, comfort, centreline):
    """Scores of the proposals, and when each is first at fault in a collision."""
    vehicle = situation.ego.vehicle
    around = Point(centre(vehicle, situation.ego.pose))
    blocks = {
        roads.block_of(lane)
        for lane in range(len(roads.lanes))
        if roads.polygon[lane].distance(around) <= 50
    }
    ground = [
        (lane, roads.polygon[lane]) for block in blocks for lane in roads.blocks[block]
    ]
    ground += [
        (-1, area)
        for area in roads.ground[len(roads.lanes) :]
        if area.distance(around) <= 50
    ]
    factors, times, raw, ttc = [], [], [], []
    for states in simulated:
        bodies = [footprint(vehicle, state[:3]) for state in states]
        places = [road_of(body, ground, route_lanes) for body in bodies]
        collision, at = collisions(states, bodies, places, seen, vehicle)
        oncoming = longest = 0.0
        for i in range(1, 41):
            way = bodies[i].centroid.distance(bodies[i - 1].centroid)
            oncoming = oncoming + way if places[i]["oncoming"] else 0.0
            longest = max(longest, oncoming)
        direction = 1.0 if longest < 2 else 0.5 if longest < 6 else 0.0
        drivable = 0.0 if any(place["off"] for place in places) else 1.0
        factors.append(collision * drivable * direction)
        times.append(at)
        ends = [
            centreline.line.project(Point(centre(vehicle, states[i, :3])))
            for i in (0, -1)
        ]
        raw.append(max(0.0, ends[1] - ends[0]))
        ttc.append(time_to_collision(states, bodies, places, seen, roads))
    gained = [a * b for a, b in zip(raw, factors, strict=True)]
    most = max(gained)
    progress = [
        g / most if most > 0.1 else float(f != 0)
        for g, f in zip(gained, factors, strict=True)
    ]
    rows = zip(factors, progress, ttc, comfort, strict=True)
    return np.array([f * (5 * p + 5 * t + 2 * c) / 12 for f, p, t, c in rows]), times


def road_of(body, ground, route_lanes):
    corners = [Point(corner) for corner in body.exterior.coords[:4]]
    middle = body.centroid
    counts = [
        sum(polygon.contains(corner) for corner in corners) for _, polygon in ground
    ]
    return {
        "several": sum(count > 0 for count in counts) > 1 and 4 not in counts,
        "off": any(
            not any(polygon.contains(corner) for _, polygon in ground)
            for corner in corners
        ),
        "oncoming": not any(
            polygon.contains(middle) for lane, polygon in ground if lane in route_lanes
        ),
    }


def angle_to(state, polygon):
    """How far the middle of a polygon is off the heading, seen from the rear axle, in
    degrees.
    """
    to = math.atan2(polygon.centroid.y - state[1], polygon.centroid.x - state[0])
    return math.degrees(abs(math.remainder(to - state[2], 2 * math.pi)))


def collisions(states, bodies, places, seen, vehicle):
    factor, at, ignored = 1.0, math.inf, set(seen.collided)
    for i, (state, body, place) in enumerate(zip(states, bodies, places, strict=True)):
        for token, polygon in seen.meeting(i // 2, body):
            if token.startswith("red") or token in ignored:
                continue
            still = token in seen.static or seen.speed[token] <= 0.05
            corners = body.exterior.coords
            if abs(state[3]) <= 0.05:
                fault = False
            elif still:
                fault = True
            elif angle_to(state, polygon) > 150:
                fault = False
            elif LineString([corners[0], corners[1]]).intersects(polygon):
                fault = True
            else:
                fault = place["several"] or place["off"]
            if fault:
                factor, at = (
                    min(factor, 0.5 if token in seen.static else 0.0),
                    min(at, 0.1 * i),
                )
            else:
                ignored.add(token)
    return factor, at


def time_to_collision(states, bodies, places, seen, roads):
    ignored, score = set(seen.collided), 1.0
    for i, (state, body, place) in enumerate(zip(states, bodies, places, strict=True)):
        speed = abs(state[3])
        for ahead in (0, 3, 6, 9):
            way = speed * 0.1 * ahead
            moved = translate(body, way * math.cos(state[2]), way * math.sin(state[2]))
            for token, polygon in seen.meeting((i + ahead) // 2, moved):
                if token.startswith("red") or token in ignored or speed < 0.005:
                    continue
                angle = angle_to(state, polygon)
                crossing = any(
                    lane.connector
                    and roads.polygon[number].distance(Point(state[:2])) <= 0.01
                    for number, lane in enumerate(roads.lanes)
                )
                if angle < 30 or (
                    (place["several"] or place["off"] or crossing) and angle <= 150
                ):
                    score = 0.0
                else:
                    ignored.add(token)
    return score
