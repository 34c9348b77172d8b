"""Drives of one unit (the scenarios of a nuPlan log) -> the unit: their frames in time order, each with its route."""

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from deepval.errors import InputError
from deepval.world.objects import Objects
from deepval.world.scene import Scene
from deepval.world.truth import Future, Truth


def joined(drives: Sequence[tuple[Scene, Truth]]) -> tuple[Scene, Truth]:
    """One unit of drives that share camera, map and vehicle; a track is another one in another drive."""
    if not drives:
        raise InputError("a unit must be joined from one drive or more; found none.")
    scenes, truths = [scene for scene, _ in drives], [truth for _, truth in drives]
    return _scene(scenes), _truth(truths)


def _scene(scenes: list[Scene]) -> Scene:
    offsets = np.concatenate([[0], np.cumsum([len(scene.route) for scene in scenes])]).astype(int)
    starts = [np.zeros(len(scene), dtype=int) if scene.route_starts is None else scene.route_starts for scene in scenes]
    return replace(
        scenes[0],
        frame_ids=np.concatenate([scene.frame_ids for scene in scenes]),
        time_s=np.concatenate([scene.time_s for scene in scenes]),
        ego_speed_mps=np.concatenate([scene.ego_speed_mps for scene in scenes]),
        image_paths=_all_or_none([scene.image_paths for scene in scenes], [len(scene) for scene in scenes]),
        world_from_ego=_together([scene.world_from_ego for scene in scenes]),
        route=tuple(roadblock for scene in scenes for roadblock in scene.route),
        route_starts=np.concatenate([start + offset for start, offset in zip(starts, offsets, strict=False)]),
        route_ends=np.repeat(offsets[1:], [len(scene) for scene in scenes]),
        red_lights=tuple(shut for scene in scenes for shut in scene.red_lights or [frozenset()] * len(scene)),
        ego_acceleration_mps2=_together([scene.ego_acceleration_mps2 for scene in scenes]),
    )


def _truth(truths: list[Truth]) -> Truth:
    frames = [truth.frames for truth in truths]
    futures = [truth.future for truth in truths if truth.future is not None]
    tracks = _track_offsets(truths)
    return Truth(
        unit=truths[0].unit,
        objects=_objects([truth.objects for truth in truths], tracks),
        box_px=np.concatenate([truth.box_px for truth in truths]),
        occlusion=np.concatenate([truth.occlusion for truth in truths]),
        ignored_frame=np.concatenate([t.ignored_frame + sum(frames[:place]) for place, t in enumerate(truths)]),
        ignored_box_px=np.concatenate([truth.ignored_box_px for truth in truths]),
        future=_future(futures, tracks) if len(futures) == len(truths) else None,
    )


def _future(futures: list[Future], tracks: list[int]) -> Future:
    return Future(
        times_s=futures[0].times_s,
        pose=np.concatenate([future.pose for future in futures]),
        valid=np.concatenate([future.valid for future in futures]),
        objects=tuple(_objects(list(ahead), tracks) for ahead in zip(*(f.objects for f in futures), strict=True)),
    )


def _objects(parts: list[Objects], tracks: list[int]) -> Objects:
    """Objects of drives one after another, tracks numbered on from `tracks`."""
    first = np.concatenate([[0], np.cumsum([part.frames for part in parts])]).astype(int)
    columns = {
        field.name: np.concatenate([getattr(part, field.name) for part in parts])
        for field in fields(Objects)
        if field.name not in ("frames", "frame", "track")
    }
    return Objects(
        frames=int(first[-1]),
        frame=np.concatenate([part.frame + start for part, start in zip(parts, first, strict=False)]),
        track=np.concatenate([np.where(p.track < 0, -1, p.track + at) for p, at in zip(parts, tracks, strict=True)]),
        **columns,
    )


def _track_offsets(truths: list[Truth]) -> list[int]:
    """The first track number of each drive: more than any of the drive before, at present or ahead."""
    offsets = [0]
    for truth in truths[:-1]:
        seen = [truth.objects, *(truth.future.objects if truth.future else ())]
        offsets.append(offsets[-1] + 1 + max(int(each.track.max(initial=-1)) for each in seen))
    return offsets


def _together(parts: Sequence[np.ndarray | None]) -> Any:
    """The arrays in a row, None where one is not there."""
    told = [part for part in parts if part is not None]
    return np.concatenate(told) if len(told) == len(parts) else None


def _all_or_none(parts: Sequence[tuple[Any, ...]], lengths: Sequence[int]) -> tuple[Any, ...]:
    """One item per frame, None in drives that have none; empty where no drive has any."""
    if not any(parts):
        return ()
    return tuple(item for part, length in zip(parts, lengths, strict=True) for item in part or (None,) * length)
