"""GeoPackage layers (SQLite tables with geometry blobs) -> columns and lines in metres of a UTM zone.

A blob is a header ("GP", version, flags, reference system, envelope) and the geometry as well-known binary (WKB), in
either byte order. The module reads lines and polygons, single or multiple, with or without heights; of a polygon, the
outer ring only.
"""

import re
import sqlite3
import struct
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from deepval.arrays import Float
from deepval.errors import InputError
from deepval.files import reading
from deepval.geometry.mercator import utm_m

BATCH = 20_000


@dataclass(frozen=True)
class Database:
    """An open SQLite file."""

    path: Path
    connection: sqlite3.Connection

    def tables(self) -> frozenset[str]:
        """Names of its tables, without views: reading a view would run a query stored in the file."""
        return frozenset(name for (name,) in self.rows("SELECT name FROM sqlite_master WHERE type = 'table'"))

    def columns(self, table: str) -> tuple[str, ...]:
        """Names of a table's columns."""
        return tuple(row[1] for row in self.rows(f"PRAGMA table_info({sql_name(table)})"))

    def require(self, needed: dict[str, Sequence[str]]) -> None:
        """Raise unless the tables and their columns are there."""
        for table, columns in needed.items():
            if table not in self.tables():
                raise InputError(f"{self.path}: must have a table {table}; it has none: check that the file is whole.")
            missing = sorted(set(columns) - set(self.columns(table)))
            if missing:
                raise InputError(f"{self.path}: table {table} must have a column {missing[0]}; it has none.")

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        return [row for batch in self.batches(query, values) for row in batch]

    def batches(self, query: str, values: Sequence[Any] = ()) -> Iterator[list[tuple[Any, ...]]]:
        """The rows of a query in batches, for tables that do not fit into memory."""
        try:
            cursor = self.connection.execute(query, values)
            while batch := cursor.fetchmany(BATCH):
                yield batch
        except (sqlite3.Error, UnicodeDecodeError) as error:
            raise InputError(f"{self.path}: must be a whole SQLite file; {error}: get the file again.") from error


def sql_name(name: str) -> str:
    """A name quoted for SQL, whatever characters it has."""
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def open_database(path: Path, *, what: str) -> Iterator[Database]:
    """A SQLite file, read only."""
    if not reading.is_file(path):
        raise InputError(f"{what} must be at {path}; there is no such file: check the data set's folder.")
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    except sqlite3.Error as error:
        raise InputError(f"{path}: must be a SQLite file that can be read; {error}.") from error
    with closing(connection):
        database = Database(path, connection)
        database.rows("PRAGMA trusted_schema = OFF")
        yield database


LINE, POLYGON, LINES, POLYGONS = 2, 3, 5, 6
ENVELOPE_BYTES = (0, 32, 48, 48, 64)
HAS_Z, HAS_M, HAS_ID = 0x80000000, 0x40000000, 0x20000000
"""Flags that some writers set in a geometry's type instead of adding 1000, 2000 or 3000 to it."""
WGS84 = 4326

Part = Float[np.ndarray, "_ 2"]


class Features(NamedTuple):
    """Rows of a layer: the requested columns, and the parts of each row's geometry in metres."""

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
        return cls(number, bool(south)) if south in (0, 1) and 1 <= number <= 60 else None


def zone_of_file(database: Database) -> UtmZone | None:
    """The zone under projectedCoordSystem in the file's table `meta`; None where the file has no such row."""
    if "meta" not in database.tables():
        return None
    database.require({"meta": ("key", "value")})
    for (value,) in database.rows("SELECT value FROM meta WHERE key = 'projectedCoordSystem'"):
        number = re.fullmatch(r"(?i)\s*epsg:+(\d+)\s*", str(value))
        zone = UtmZone.of(int(number[1])) if number else None
        if zone is None:
            raise InputError(
                f"{database.path}: projectedCoordSystem must be a UTM zone such as EPSG:32619; it is {value}."
            )
        return zone
    return None


def features(database: Database, layer: str, columns: Sequence[str], *, zone: UtmZone) -> Features:
    """All rows of a layer in the file's order, in metres of the zone."""
    database.require({"gpkg_geometry_columns": ("table_name", "column_name", "srs_id"), layer: columns})
    geometry_columns = database.rows(
        "SELECT column_name, srs_id FROM gpkg_geometry_columns WHERE table_name = ?", (layer,)
    )
    if len(geometry_columns) != 1:
        raise InputError(
            f"{database.path}: layer {layer} must have one geometry column; {len(geometry_columns)} are told of."
        )
    shape, srs = str(geometry_columns[0][0]), geometry_columns[0][1]
    database.require({layer: (shape,)})
    selected = ", ".join(sql_name(name) for name in (shape, *columns))
    rows = database.rows(f"SELECT {selected} FROM {sql_name(layer)} ORDER BY rowid")
    parts = [_parts(row[0], f"{database.path}: layer {layer}, row {number}") for number, row in enumerate(rows, 1)]
    return Features(
        [row[1:] for row in rows],
        _in_metres(parts, _epsg(database, srs), zone=zone, source=f"{layer} of {database.path}"),
    )


def _epsg(database: Database, srs: Any) -> int | None:
    """EPSG number of a reference system of the file; None where another organization defines it."""
    database.require({"gpkg_spatial_ref_sys": ("srs_id", "organization", "organization_coordsys_id")})
    query = "SELECT organization, organization_coordsys_id FROM gpkg_spatial_ref_sys WHERE srs_id = ?"
    for organization, number in database.rows(query, (srs,)):
        if str(organization).upper() == "EPSG" and isinstance(number, int):
            return number
    return None


def _in_metres(parts: list[list[Part]], epsg: int | None, *, zone: UtmZone, source: str) -> list[list[Part]]:
    if epsg == zone.epsg:
        return parts
    if epsg != WGS84:
        raise InputError(
            f"layer {source} must be in longitude and latitude (EPSG:{WGS84}) or EPSG:{zone.epsg}; found {epsg}."
        )
    # One projection of all points together, then cut into the parts again: a call per part would be slow.
    flat = [part for shape in parts for part in shape]
    points = np.concatenate([*flat, np.zeros((0, 2))])
    if not ((np.abs(points[:, 1]) < 90) & (np.abs(points[:, 0]) <= 180)).all():
        raise InputError(
            f"layer {source} must be in degrees; found points beyond 180 degrees east or 90 degrees north."
        )
    ends = np.cumsum([len(part) for part in flat])
    moved = iter(np.split(utm_m(points, zone.number, south=zone.south), ends[:-1]) if flat else [])
    return [[next(moved) for _ in shape] for shape in parts]


def _parts(blob: Any, source: str) -> list[Part]:
    """Lines, or outer rings, of a geometry blob."""
    if not (isinstance(blob, bytes) and blob[:2] == b"GP" and len(blob) > 8):
        raise InputError(f"{source}: a geometry must be a GeoPackage blob; it is none.")
    flags = blob[3]
    envelope = flags >> 1 & 7
    if envelope >= len(ENVELOPE_BYTES):
        raise InputError(f"{source}: a geometry's envelope must be of kind 0 to 4; found {envelope}.")
    if flags & 0x10:
        return []
    try:
        return _Reader(blob, 8 + ENVELOPE_BYTES[envelope]).geometry()
    except (struct.error, IndexError) as error:
        raise InputError(f"{source}: a geometry must be whole; the blob ends within it.") from error
    except InputError as error:
        raise InputError(f"{source}: {error}") from error


@dataclass
class _Reader:
    """Reads well-known binary from an offset of a blob on; every read moves the offset."""

    blob: bytes
    offset: int

    def geometry(self, *, inner: bool = False) -> list[Part]:
        order = "<" if self.blob[self.offset] == 1 else ">"
        if self.blob[self.offset] > 1:
            raise InputError(f"a geometry's byte order must be 0 or 1; found {self.blob[self.offset]}.")
        self.offset += 1
        kind = self._number(order)
        extra = bool(kind & HAS_Z) + bool(kind & HAS_M) + (0, 1, 1, 2, 0)[min((kind & 0xFFFF) // 1000, 4)]
        if kind & HAS_ID:
            self.offset += 4
        kind = (kind & 0xFFFF) % 1000
        if kind == LINE:
            return [self._points(order, 2 + extra)]
        if kind == POLYGON:
            return [self._points(order, 2 + extra) for _ in range(self._count(order))][:1]
        if kind in (LINES, POLYGONS) and not inner:
            return [part for _ in range(self._count(order)) for part in self.geometry(inner=True)]
        raise InputError(f"a geometry must be lines or polygons; found one of type {kind}.")

    def _number(self, order: str) -> int:
        (number,) = struct.unpack_from(f"{order}I", self.blob, self.offset)
        self.offset += 4
        return number

    def _count(self, order: str) -> int:
        """Number of elements that follow; an element takes four bytes or more, so a count beyond the blob is wrong."""
        count = self._number(order)
        if count * 4 > len(self.blob) - self.offset:
            raise struct.error
        return count

    def _points(self, order: str, axes: int) -> Part:
        count = self._count(order)
        size = count * axes * 8
        if size > len(self.blob) - self.offset:
            raise struct.error
        flat = np.frombuffer(self.blob, dtype=f"{order}f8", count=count * axes, offset=self.offset)
        self.offset += size
        points = flat.reshape(count, axes)[:, :2].astype(float)
        if not np.isfinite(points).all():
            raise InputError("a geometry must be finite; found NaN or infinity.")
        return points
