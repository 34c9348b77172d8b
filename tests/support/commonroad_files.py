"""A CommonRoad scenario in the published format: a street of two lanes, an intersection
with a light, obstacles.
"""

STEPS = 91
SPEED_MPS = 5.0


def points(*rows):
    return "".join(f"<point><x>{x}</x><y>{y}</y></point>" for x, y in rows)


def lanelet(
    key, x, y, *, after=(), left=None, right=None, kind="urban", more="", width=3.5
):
    """A straight lanelet over x = (begin, end), `y` its middle."""
    bounds = "".join(
        (
            f"<{side}Bound>"
            f"{points((x[0], edge), ((x[0] + x[1]) / 2, edge), (x[1], edge))}</"
            f"{side}Bound>"
        )
        for side, edge in (("left", y + width / 2), ("right", y - width / 2))
    )
    links = "".join(f'<successor ref="{one}"/>' for one in after)
    links += "".join(
        f'<adjacent{side} ref="{key}" drivingDir="{way}"/>'
        for side, (key, way) in (
            ("Left", left or (None, None)),
            ("Right", right or (None, None)),
        )
        if key is not None
    )
    return (
        f'<lanelet id="{key}">{bounds}{links}<laneletType>{kind}</laneletType>{more}</'
        "lanelet>"
    )


def state(step, x, y, *, heading=0.0, speed=None, tag="state"):
    velocity = "" if speed is None else f"<velocity><exact>{speed}</exact></velocity>"
    return (
        f"<{tag}><time><exact>{step}</exact></time>"
        f"<position>{points((x, y))}</position><orientation><exact>{heading}</exact>"
        f"</orientation>{velocity}</{tag}>"
    )


def rectangle(length=4.5, width=1.8):
    return f"<rectangle><length>{length}</length><width>{width}</width></rectangle>"


def obstacle(key, states, *, kind="car", shape=None, tag="dynamicObstacle"):
    """States are (step, x, y, keywords)."""
    first, *others = [state(step, x, y, tag="state" if n else "initialState", **more)
                      for n, (step, x, y, more) in enumerate(states)]  # fmt: skip
    path = f"<trajectory>{''.join(others)}</trajectory>" if others else ""
    return (
        f'<{tag} id="{key}"><type>{kind}</type>'
        f"<shape>{shape or rectangle()}</shape>{first}{path}</{tag}>"
    )


def driven(x0, y, *, steps=range(STEPS), step_s=0.1, speed=SPEED_MPS):
    return [(step, x0 + speed * step * step_s, y, {"speed": speed}) for step in steps]


def parts(step_s=0.1, steps=STEPS):
    """Parts of a scenario by name; the ego (31) drives along y = 0 from x = 10 at 5 m/s
    on lanelets 1, 3 and 5.
    """
    sign = '<trafficSignRef ref="200"/>'
    light = '<trafficLightRef ref="300"/>'
    return {
        "lanelets": lanelet(
            1, (0, 40), 0.0, after=(3,), left=(2, "same"), more=sign + light
        )
        + lanelet(2, (0, 40), 3.5, after=(4,), left=(6, "opposite"), right=(1, "same"))
        + lanelet(3, (40, 60), 0.0, after=(5,))
        + lanelet(4, (40, 60), 3.5)
        + lanelet(5, (60, 200), 0.0, kind="country")
        + lanelet(6, (40, 0), 7.0, width=-3.5)
        + lanelet(7, (0, 40), -3.5, kind="shoulder")
        + lanelet(8, (44, 48), 0.0, kind="crosswalk")
        + lanelet(9, (0, 40), -6.0, kind="sidewalk"),
        "signs": (
            '<trafficSign id="200"><trafficSignElement>'
            "<trafficSignID>274</trafficSignID>"
            "<additionalValue>13.9</additionalValue></trafficSignElement></trafficSign>"
            '<trafficLight id="300"><cycle><cycleElement><duration>20</duration>'
            "<color>red</color></cycleElement>"
            "<cycleElement><duration>30</duration><color>green</color></cycleElement>"
            "<timeOffset>10</timeOffset></cycle><direction>straight</direction>"
            "</trafficLight>"
        ),
        "intersections": (
            '<intersection id="400"><incoming id="401"><incomingLanelet ref="1"/>'
            '<successorsStraight ref="3"/></incoming></intersection>'
        ),
        "obstacles": obstacle(
            30,
            [(0, 50, 3.5, {})],
            kind="parkedVehicle",
            tag="staticObstacle",
            shape=rectangle(6, 2),
        )
        + obstacle(31, driven(10, 0.0, steps=range(steps), step_s=step_s))
        + obstacle(
            32,
            driven(35, 0.0, steps=range(4, steps), step_s=step_s),
            kind="truck",
            shape=rectangle(9, 2.5),
        )
        + obstacle(
            33,
            [
                (step, 30.0, -4 + 0.1 * step, {"heading": 1.5708})
                for step in range(10, 40)
            ],
            kind="pedestrian",
            shape="<circle><radius>0.4</radius></circle>",
        ),
        "problems": (
            "<planningProblem "
            f'id="500">{state(0, 9, 0, speed=5.0, tag="initialState")}</'
            "planningProblem>"
        ),
    }


def document(
    content=None,
    *,
    step_s=0.1,
    version="2020a",
    head='<?xml version="1.0" encoding="UTF-8"?>\n',
):
    content = parts(step_s) if content is None else content
    return (
        f'{head}<commonRoad timeStepSize="{step_s}" commonRoadVersion="{version}" '
        'benchmarkID="ZAM_Made-1_1_T-1" author="a" affiliation="b" source="c" '
        f'date="2020-01-01">{"".join(content.values())}</commonRoad>'
    )


def write(root, text=None, name="ZAM_Made-1_1_T-1"):
    root.mkdir(parents=True, exist_ok=True)
    (root / f"{name}.xml").write_text(
        document() if text is None else text, encoding="utf-8"
    )
    return root
