"""GeoPackage layers (SQLite tables with geometry blobs) -> columns and lines in metres
of a UTM zone.

A blob is a header ("GP", version, flags, reference system, envelope) and the geometry
as well-known binary (WKB), which shapely decodes. The module reads lines and polygons,
single or multiple, with or without heights; only the outer ring of a polygon is read.
Longitude and latitude (WGS 84) become easting and northing by Krüger's series to sixth
order in the third flattening n: Karney, "Transverse Mercator with an accuracy of a few
nanometers" (J. Geodesy 85, 2011), eq. 7 to 11 and 35.
"""

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from deepval.basics.arrays import Float
from deepval.basics.errors import InputError, library
from deepval.basics.files import reading

SEMI_MAJOR_M, FLATTENING = 6378137.0, 1 / 298.257223563
SCALE, FALSE_EASTING_M, FALSE_NORTHING_SOUTH_M = 0.9996, 500_000.0, 10_000_000.0
N = FLATTENING / (2 - FLATTENING)
ECCENTRICITY = np.sqrt(FLATTENING * (2 - FLATTENING))
RECTIFYING_M = SEMI_MAJOR_M / (1 + N) * (1 + N**2 / 4 + N**4 / 64 + N**6 / 256)
"""A meridian's length divided by 2 pi."""
ALPHA = (
    N / 2
    - 2 / 3 * N**2
    + 5 / 16 * N**3
    + 41 / 180 * N**4
    - 127 / 288 * N**5
    + 7891 / 37800 * N**6,
    13 / 48 * N**2
    - 3 / 5 * N**3
    + 557 / 1440 * N**4
    + 281 / 630 * N**5
    - 1983433 / 1935360 * N**6,
    61 / 240 * N**3 - 103 / 140 * N**4 + 15061 / 26880 * N**5 + 167603 / 181440 * N**6,
    49561 / 161280 * N**4 - 179 / 168 * N**5 + 6601661 / 7257600 * N**6,
    34729 / 80640 * N**5 - 3418889 / 1995840 * N**6,
    212378941 / 319334400 * N**6,
)


def utm_m(
    lon_lat_deg: Float[np.ndarray, "*batch 2"], zone: int, *, south: bool = False
) -> Float[np.ndarray, "*batch 2"]:
    """Easting and northing in a UTM zone (1 to 60) of points in longitude and latitude
    (degrees).
    """
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


BATCH = 20_000


@dataclass(frozen=True)
class Database:
    """An open SQLite file."""

    path: Path
    connection: sqlite3.Connection

    def tables(self) -> frozenset[str]:
        """Names of its tables, without views: reading a view would run a query stored
        in the file.
        """
        return frozenset(
            name
            for (name,) in self.rows(
                "SELECT name FROM sqlite_master WHERE type = 'table'"
            )
        )

    def columns(self, table: str) -> tuple[str, ...]:
        """Names of a table's columns."""
        return tuple(
            row[1] for row in self.rows(f"PRAGMA table_info({sql_name(table)})")
        )

    def require(self, needed: dict[str, Sequence[str]]) -> None:
        """Raise unless the tables and their columns are there."""
        for table, columns in needed.items():
            if table not in self.tables():
                raise InputError(
                    f"{self.path}: must have a table {table}; it has none: check that "
                    "the file is whole."
                )
            missing = sorted(set(columns) - set(self.columns(table)))
            if missing:
                raise InputError(
                    f"{self.path}: table {table} must "
                    f"have a column {missing[0]}; it has none."
                )

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        return [row for batch in self.batches(query, values) for row in batch]

    def batches(
        self, query: str, values: Sequence[Any] = ()
    ) -> Iterator[list[tuple[Any, ...]]]:
        """The rows of a query in batches, for tables that do not fit into memory."""
        try:
            cursor = self.connection.execute(query, values)
            while batch := cursor.fetchmany(BATCH):
                yield batch
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise InputError(
                f"{self.path}: must be a whole SQLite "
                f"file; {error}: get the file again."
            ) from error


def sql_name(name: str) -> str:
    """A name quoted for SQL, whatever characters it has."""
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def open_database(path: Path, *, what: str) -> Iterator[Database]:
    """A SQLite file, read only."""
    if not reading.is_file(path):
        raise InputError(
            f"{what} must be at {path}; there is no such file: "
            "check the data set's folder."
        )
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    except sqlite3.Error as error:
        raise InputError(
            f"{path}: must be a SQLite file that can be read; {error}."
        ) from error
    with closing(connection):
        database = Database(path, connection)
        database.rows("PRAGMA trusted_schema = OFF")
        yield database


LINE, POLYGON, LINES, POLYGONS = 2, 3, 5, 6
SHAPE = 0x3FFFFFFF
"""Bits of a geometry's type; the two above them may mark heights and measures."""
ENVELOPE_BYTES = (0, 32, 48, 48, 64)
WGS84 = 4326

Part = Float[np.ndarray, "_ 2"]


class Features(NamedTuple):
    """Rows of a layer: the requested columns, and the parts of each row's geometry in
    metres.
    """

    columns: list[tuple[Any, ...]]
    parts: list[list[Part]]


@dataclass(frozen=True)
class UtmZone:
    """A zone of the Universal Transverse Mercator grid."""

    number: int
    south: bool = False

    @property
    def epsg(self) -> int:
        """Its number in the EPSG register."""
        return (32700 if self.south else 32600) + self.number

    @classmethod
    def of(cls, epsg: int) -> "UtmZone | None":
        """The zone of an EPSG number; None where the number is not a UTM zone."""
        south, number = divmod(epsg - 32600, 100)
        return (
            cls(number, bool(south)) if south in (0, 1) and 1 <= number <= 60 else None
        )


def zone_of_file(database: Database) -> UtmZone | None:
    """The zone under projectedCoordSystem in the file's table `meta`; None where the
    file has no such row.
    """
    if "meta" not in database.tables():
        return None
    database.require({"meta": ("key", "value")})
    for (value,) in database.rows(
        "SELECT value FROM meta WHERE key = 'projectedCoordSystem'"
    ):
        number = re.fullmatch(r"(?i)\s*epsg:+(\d+)\s*", str(value))
        zone = UtmZone.of(int(number[1])) if number else None
        if zone is None:
            raise InputError(
                f"{database.path}: projectedCoordSystem must be a UTM zone such as "
                f"EPSG:32619; it is {value}."
            )
        return zone
    return None


def features(
    database: Database, layer: str, columns: Sequence[str], *, zone: UtmZone
) -> Features:
    """All rows of a layer in the file's order, in metres of the zone."""
    database.require(
        {
            "gpkg_geometry_columns": ("table_name", "column_name", "srs_id"),
            layer: columns,
        }
    )
    geometry_columns = database.rows(
        "SELECT column_name, srs_id FROM gpkg_geometry_columns WHERE table_name = ?",
        (layer,),
    )
    if len(geometry_columns) != 1:
        raise InputError(
            f"{database.path}: layer {layer} must have one geometry column; "
            f"gpkg_geometry_columns lists {len(geometry_columns)}."
        )
    shape, srs = str(geometry_columns[0][0]), geometry_columns[0][1]
    database.require({layer: (shape,)})
    selected = ", ".join(sql_name(name) for name in (shape, *columns))
    rows = database.rows(f"SELECT {selected} FROM {sql_name(layer)} ORDER BY rowid")
    parts = [
        _parts(row[0], f"{database.path}: layer {layer}, row {number}")
        for number, row in enumerate(rows, 1)
    ]
    return Features(
        [row[1:] for row in rows],
        _in_metres(
            parts, _epsg(database, srs), zone=zone, source=f"{layer} of {database.path}"
        ),
    )


def _epsg(database: Database, srs: Any) -> int | None:
    """EPSG number of a reference system of the file; None where another organization
    defines it.
    """
    database.require(
        {"gpkg_spatial_ref_sys": ("srs_id", "organization", "organization_coordsys_id")}
    )
    query = (
        "SELECT organization, organization_coordsys_id FROM gpkg_spatial_ref_sys "
        "WHERE srs_id = ?"
    )
    for organization, number in database.rows(query, (srs,)):
        if str(organization).upper() == "EPSG" and isinstance(number, int):
            return number
    return None


def _in_metres(
    parts: list[list[Part]], epsg: int | None, *, zone: UtmZone, source: str
) -> list[list[Part]]:
    if epsg == zone.epsg:
        return parts
    if epsg != WGS84:
        raise InputError(
            f"layer {source} must be in longitude and latitude (EPSG:{WGS84}) or "
            f"EPSG:{zone.epsg}; found {epsg}."
        )
    # One projection of all points together, then cut into the parts again: a call per
    # part would be slow.
    flat = [part for shape in parts for part in shape]
    points = np.concatenate([*flat, np.zeros((0, 2))])
    if not ((np.abs(points[:, 1]) < 90) & (np.abs(points[:, 0]) <= 180)).all():
        raise InputError(
            f"layer {source} must be in degrees; found points beyond 180 degrees east "
            "or 90 degrees north."
        )
    ends = np.cumsum([len(part) for part in flat])
    moved = iter(
        np.split(utm_m(points, zone.number, south=zone.south), ends[:-1])
        if flat
        else []
    )
    return [[next(moved) for _ in shape] for shape in parts]


def _parts(blob: Any, source: str) -> list[Part]:
    """Lines, or outer rings, of a geometry blob."""
    if not (isinstance(blob, bytes) and blob[:2] == b"GP" and len(blob) > 8):
        raise InputError(f"{source}: a geometry must be a GeoPackage blob; it is not.")
    flags = blob[3]
    envelope = flags >> 1 & 7
    if envelope >= len(ENVELOPE_BYTES):
        raise InputError(
            f"{source}: a geometry's envelope must be of kind 0 to 4; found {envelope}."
        )
    if flags & 0x10:
        return []
    wkb = blob[8 + ENVELOPE_BYTES[envelope] :]
    kind = _kind(wkb, source)
    if kind in (LINES, POLYGONS):
        _check_parts(wkb, source)
    shapely = library(
        "shapely", purpose="Reading the lane map of a GeoPackage", extra="planners"
    )
    try:
        with np.errstate(invalid="ignore"):  # NaN is refused below
            singles = shapely.get_parts(shapely.from_wkb(wkb))
    except shapely.errors.GEOSException as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"{source}: a geometry must be whole; {reason}: get the file again."
        ) from error
    if kind in (POLYGON, POLYGONS):
        singles = shapely.get_exterior_ring(singles[~shapely.is_empty(singles)])
    parts = [shapely.get_coordinates(single) for single in singles]
    if not all(np.isfinite(part).all() for part in parts):
        raise InputError(f"{source}: a geometry must be finite; found NaN or infinity.")
    return parts


def _check_parts(wkb: bytes, source: str) -> None:
    """Raise unless all parts of a multiple geometry are single lines or polygons.

    The library reads nested geometries by recursion: a blob of 110 kB would overflow
    the stack.
    """

    def count(at: int) -> int:
        return int.from_bytes(wkb[at : at + 4], "little" if wkb[start] else "big")

    start, end = 0, 9
    for _ in range(count(5)):
        start, end = end, end + 5
        kind = _kind(wkb[start:end], source)
        if kind not in (LINE, POLYGON):
            raise InputError(
                f"{source}: parts of a geometry must be single "
                f"lines or polygons; found type {kind}."
            )
        flags = count(start + 1)
        thousands = (flags & SHAPE) // 1000
        axes = 2 + (flags >> 31 | thousands & 1) + (flags >> 30 & 1 | thousands >> 1)
        rings = 1
        if kind == POLYGON:
            rings, end = count(end), end + 4
        for _ in range(rings):
            end += 4 + 8 * axes * count(end)
            if end > len(wkb):
                raise InputError(
                    f"{source}: a geometry must be whole; it ends "
                    "early: get the file again."
                )


def _kind(wkb: bytes, source: str) -> int:
    """Type of a geometry in well-known binary, without its heights and measures."""
    if len(wkb) < 5 or wkb[0] > 1:
        raise InputError(
            f"{source}: a geometry must start with its byte order "
            f"(0 or 1) and type; found {wkb[:5]!r}."
        )
    kind = int.from_bytes(wkb[1:5], "little" if wkb[0] else "big") & SHAPE
    kind = kind % 1000 if kind < 4000 else kind  # heights add 1000, measures 2000
    if kind not in (LINE, POLYGON, LINES, POLYGONS):
        raise InputError(
            f"{source}: a geometry must be lines or polygons; found one of type {kind}."
        )
    return kind
