"""Walk over the records of full-zip pages. Spec: file format 2.x, 4.5."""

from lance_df.encodings.kernels.jit import kernel


@kernel
def parse_fixed_records(  # type: ignore[no-untyped-def]
    data, row_starts, row_stops, word_bytes, definition_bits, value_bytes, max_visible, rep, df, starts
):
    """Find levels and values of fixed width; return (slots, values, broken row or -1).

    Parameters
    ----------
    data
        The caller has checked that all rows lie within.
    row_starts, row_stops
        Where the records of each row lie.
    word_bytes, definition_bits
        Size of the control word, and its low bits that are the definition level.
    value_bytes, max_visible
        Size of a value. A slot owns one iff its definition level is at most ``max_visible``.
    rep, df, starts
        Receive the levels of each slot and the position of each value; a row that does not fit is broken.
    """
    definition_mask = (1 << definition_bits) - 1
    slot = 0
    value = 0
    for row in range(len(row_starts)):
        position = row_starts[row]
        stop = row_stops[row]
        while position < stop:
            if position + word_bytes > stop or slot == len(rep):
                return slot, value, row
            word = 0
            for i in range(word_bytes):
                word |= int(data[position + i]) << (8 * i)
            position += word_bytes
            level = word & definition_mask
            rep[slot] = word >> definition_bits
            df[slot] = level
            slot += 1
            if level <= max_visible:
                if position + value_bytes > stop or value == len(starts):
                    return slot, value, row
                starts[value] = position
                value += 1
                position += value_bytes
    return slot, value, -1


@kernel
def parse_variable_records(  # type: ignore[no-untyped-def]
    data,
    row_starts,
    row_stops,
    word_bytes,
    definition_bits,
    length_bytes,
    max_visible,
    rep,
    df,
    starts,
    lengths,
):
    """Find levels and values of variable width; return (slots, values, broken row or -1).

    As :func:`parse_fixed_records`, but a value has its length in front, and null ones have neither.
    """
    definition_mask = (1 << definition_bits) - 1
    slot = 0
    value = 0
    for row in range(len(row_starts)):
        position = row_starts[row]
        stop = row_stops[row]
        while position < stop:
            if position + word_bytes > stop or slot == len(rep):
                return slot, value, row
            word = 0
            for i in range(word_bytes):
                word |= int(data[position + i]) << (8 * i)
            position += word_bytes
            level = word & definition_mask
            rep[slot] = word >> definition_bits
            df[slot] = level
            slot += 1
            if level > max_visible:
                continue
            if value == len(starts):
                return slot, value, row
            length = 0
            if level == 0:
                if position + length_bytes > stop:
                    return slot, value, row
                for i in range(length_bytes):
                    length |= int(data[position + i]) << (8 * i)
                position += length_bytes
                if length < 0 or length > stop - position:
                    return slot, value, row
            starts[value] = position
            lengths[value] = length
            value += 1
            position += length
    return slot, value, -1


@kernel
def parse_packed_rows(data, starts, lengths, fixed_bytes, length_bytes, out_starts, out_lengths):  # type: ignore[no-untyped-def]
    """Find the children of packed rows; return the first broken row, or -1.

    Parameters
    ----------
    starts, lengths
        Where each row lies in ``data``; the caller has checked that. A row of no bytes has no children.
    fixed_bytes, length_bytes
        For each child its size, or -1 and the size of the length in front of it.
    out_starts, out_lengths
        Shape (children, rows).
    """
    for row in range(len(starts)):
        position = starts[row]
        stop = position + lengths[row]
        if position == stop:
            out_starts[:, row] = position
            out_lengths[:, row] = 0
            continue
        for child in range(len(fixed_bytes)):
            size = fixed_bytes[child]
            if size < 0:
                if position + length_bytes[child] > stop:
                    return row
                size = 0
                for i in range(length_bytes[child]):
                    size |= int(data[position + i]) << (8 * i)
                position += length_bytes[child]
            if size < 0 or size > stop - position:
                return row
            out_starts[child, row] = position
            out_lengths[child, row] = size
            position += size
        if position != stop:
            return row
    return -1
