"""An Arrow record batch as bytes, compressed with zstd, with a checksum; and back, from bytes that may
come from another instance."""

from __future__ import annotations

import struct
import zlib

import pyarrow as pa

LEVEL, CRC = 3, 4  # of zstd; bytes of the checksum
MAX_BYTES = 2**27  # of an uncompressed batch


def sealed(batch: pa.RecordBatch) -> bytes:
    """CRC-32 and the compressed batch. Raises OverflowError for one that could not be read
    again."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    plain = sink.getvalue()
    if plain.size > MAX_BYTES:
        raise OverflowError(f"its steps have {plain.size:,} bytes; {MAX_BYTES:,} are the most")
    data = bytes(pa.Codec("zstd", LEVEL).compress(plain, asbytes=True))
    return zlib.crc32(data).to_bytes(CRC) + data


def opened(data: bytes) -> pa.RecordBatch:
    """The batch of ``sealed``. Raises ValueError for other bytes, which may come from another
    instance: sizes are checked before anything of that size is read, and so is what Arrow expands
    (compressed buffers) or takes on trust (offsets)."""
    packed = memoryview(data)[CRC:]
    if len(data) < CRC or zlib.crc32(packed).to_bytes(CRC) != data[:CRC]:
        raise ValueError("the checksum does not match")
    plain = b""
    with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
        while len(plain) <= MAX_BYTES and (more := stream.read(2**20)):
            plain += more
    messages = pa.ipc.MessageReader.open_stream(plain)
    schema, message = (messages.read_next_message() for _ in range(2))
    if len(plain) > MAX_BYTES or message.type != "record batch" or _is_compressed(message.metadata):
        raise ValueError("it is larger than any run")
    fields = pa.ipc.read_schema(schema)
    if not all(
        pa.types.is_list(field.type) and _is_plain(field.type.value_type) for field in fields
    ):
        raise ValueError("its columns are not those of a run")
    batch = pa.ipc.read_record_batch(message, fields)
    batch.validate(full=True)
    if len(batch) != 1:
        raise ValueError("it is not one run")
    return batch


def _is_plain(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_string(kind))


def _is_compressed(metadata: pa.Buffer) -> bool:
    """Whether the buffers of a record batch are compressed, by its FlatBuffer, which Arrow has
    verified: whether field 2 of the root table (Message), the table RecordBatch, has field 3."""

    def field(table: int, number: int) -> int:
        """The offset of a field; 0 if it is absent."""
        (back,) = struct.unpack_from("<i", metadata, table)
        (size,) = struct.unpack_from("<H", metadata, table - back)
        at = 4 + 2 * number
        offset: int = struct.unpack_from("<H", metadata, table - back + at)[0] if at < size else 0
        return table + offset if offset else 0

    def follow(offset: int) -> int:
        return offset + int(struct.unpack_from("<I", metadata, offset)[0])

    return field(follow(field(follow(0), 2)), 3) > 0
