"""Packs blocks into chunks by their size after rendering, cutting long ones where it hurts least.

The order of preference is paragraph, line, sentence, space, grapheme. The work is linear in the text: a
cut is looked for only within the room that one chunk has.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

from trunkline.adapters.base import Chunk, Entity
from trunkline.adapters.markup.blocks import Block, Code, is_blank
from trunkline.adapters.markup.graphemes import grapheme_cut

_FULL_ENOUGH = 0.97
"""A part that fills its room to this share is not tried any longer."""

_GUESSES = 4
"""How many probes follow the density of the text before the search goes by halves."""

_SENTENCE_END = re.compile(r"[.!?…][\"')\]”’»]*(?=\s)|[。！？][”’」』）]*")
_SPACE = re.compile(r"\s(?=\S)")


class Dialect(Protocol):
    """How one platform writes blocks and counts what it wrote."""

    @property
    def entities_most(self) -> int: ...

    def size(self, text: str) -> int:
        """The length of rendered text in the platform's unit; at least one per code point."""
        ...

    def write(self, block: Block) -> Chunk:
        """The block on its own, with entities counted from its start."""
        ...

    def joint(self, above: Block, below: Block) -> str:
        """What stands between two blocks of one chunk."""
        ...


def split(blocks: Iterable[Block], dialect: Dialect, limit: int) -> tuple[Chunk, ...]:
    """The blocks as chunks of at most `limit`, in order, none of them blank.

    A chunk is longer only where the limit is below what a single character takes as the dialect writes it.
    Raises ValueError for a limit under 1.
    """
    if limit < 1:
        raise ValueError(f"a chunk needs a limit of at least 1, not {limit}")
    packer = _Packer(dialect, limit)
    for block in blocks:
        packer.add(block)
    packer.flush()
    return tuple(packer.chunks)


def blank_line(above: Block, below: Block) -> str:
    """The usual joint: a blank line where the lower block asks for one."""
    return "\n\n" if below.gap else "\n"


@dataclass(slots=True)
class _Packer:
    dialect: Dialect
    limit: int
    chunks: list[Chunk] = field(default_factory=list)
    _blocks: list[Block] = field(default_factory=list)
    _pieces: list[Chunk] = field(default_factory=list)
    _used: int = 0
    _entities: int = 0

    def add(self, block: Block) -> None:
        if len(block.text) <= self.limit:
            piece = self.dialect.write(block)
            if self._take(block, piece):
                return
            if self._fits_alone(piece):
                self._turn_over()
                if self._take(block, piece):
                    return
        self._add_in_parts(block)

    def flush(self) -> None:
        """Closes the chunk."""
        texts: list[str] = []
        entities: list[Entity] = []
        at = 0
        for number, (block, piece) in enumerate(zip(self._blocks, self._pieces, strict=True)):
            if number:
                texts.append(self.dialect.joint(self._blocks[number - 1], block))
                at += self.dialect.size(texts[-1])
            _append_shifted(entities, piece.entities, at, same_quote=_same_quote(self._blocks, number))
            texts.append(piece.text)
            at += self.dialect.size(piece.text)
        text = "".join(texts)
        if not is_blank(text):
            self.chunks.append(Chunk(text, tuple(entities)))
        self._blocks, self._pieces, self._used, self._entities = [], [], 0, 0

    def _turn_over(self) -> None:
        """Closes the chunk but takes a heading at its end along."""
        if not self._blocks or not self._blocks[-1].keeps_next:
            self.flush()
        elif len(self._blocks) > 1:
            block, piece = self._blocks.pop(), self._pieces.pop()
            self.flush()
            self._take(block, piece)

    def _add_in_parts(self, block: Block) -> None:
        if self._used > self.limit * 2 // 3:
            self._turn_over()
        start, is_bare = 0, False
        while start < len(block.text):
            cut, piece = self._furthest(block, start)
            if cut > start:
                part = block.part(start, cut)
                self._take(part, piece)
                start = _after_cut(block, cut)
                if start < len(block.text):
                    self.flush()
            elif self._blocks:
                self.flush()
            elif not is_bare:
                block, start, is_bare = block.bare(start), 0, True
            else:
                self._put(block, self.dialect.write(block.part(start, start + 1)))
                self.flush()
                start = _after_cut(block, start + 1)

    def _furthest(self, block: Block, start: int) -> tuple[int, Chunk]:
        """The best place to cut so that the part from `start` fits here, and that part; `start` if none."""
        low, reached = self._reach(block, start)
        if reached is not None and low == len(block.text):
            return low, reached
        while low > start:
            cut = _best_cut(block, start, low, alone=not self._blocks)
            piece = self.dialect.write(block.part(start, cut))
            if self._fits(block, piece):
                return cut, piece
            low = cut - 1
        return start, Chunk("")

    def _reach(self, block: Block, start: int) -> tuple[int, Chunk | None]:
        """How far a part from `start` may go at most (or nearly so), and that part."""
        low, high = start, min(len(block.text), start + self.limit)
        reached: Chunk | None = None
        probe, probes = high, 0
        while low < high:
            piece = self.dialect.write(block.part(start, probe))
            share = self._share(block, piece)
            if share <= 1:
                low, reached = probe, piece
                if share >= _FULL_ENOUGH:
                    break
            else:
                high = probe - 1
            probes += 1
            guess = (
                start + int((probe - start) / max(share, 0.01))
                if probes < _GUESSES
                else (low + high + 1) // 2
            )
            probe = min(max(guess, low + 1), high)
        return low, reached

    def _joint_size(self, block: Block) -> int:
        return self.dialect.size(self.dialect.joint(self._blocks[-1], block)) if self._blocks else 0

    def _fits_alone(self, piece: Chunk) -> bool:
        size, entities = self.dialect.size(piece.text), len(piece.entities)
        return size <= self.limit and entities <= self.dialect.entities_most

    def _fits(self, block: Block, piece: Chunk) -> bool:
        return self._share(block, piece) <= 1

    def _share(self, block: Block, piece: Chunk) -> float:
        """How much of the room left in this chunk the piece takes; over 1 if it does not fit."""
        room = self.limit - self._used - self._joint_size(block)
        entities_room = self.dialect.entities_most - self._entities
        size, entities = self.dialect.size(piece.text), len(piece.entities)
        if size > room <= 0 or entities > entities_room <= 0:
            return float("inf")
        return max(size / max(room, 1), entities / max(entities_room, 1))

    def _take(self, block: Block, piece: Chunk) -> bool:
        if not self._fits(block, piece):
            return False
        self._put(block, piece)
        return True

    def _put(self, block: Block, piece: Chunk) -> None:
        if not is_blank(piece.text):
            self._used += self._joint_size(block) + self.dialect.size(piece.text)
            self._entities += len(piece.entities)
            self._blocks.append(block)
            self._pieces.append(piece)


def _best_cut(block: Block, start: int, reach: int, *, alone: bool) -> int:
    """Where to end a part that may go up to `reach`; `start` asks for a fresh chunk instead."""
    text = block.text
    if isinstance(block, Code):
        line_end = text.rfind("\n", start + 1, reach + 1)
        if line_end > start:
            return line_end
        return _hard_cut(text, start, reach) if alone else start
    half = start + (reach - start) // 2
    line_end = text.rfind("\n", half, reach + 1)
    if line_end > start:
        return line_end
    sentences = [match.end() for match in _SENTENCE_END.finditer(text, half, reach + 1)]
    if sentences and half < sentences[-1] <= reach:
        return sentences[-1]
    spaces = [match.start() for match in _SPACE.finditer(text, start, reach + 2)]
    fitting = [space for space in spaces if start < space <= reach]
    return fitting[-1] if fitting else _hard_cut(text, start, reach)


def _hard_cut(text: str, start: int, reach: int) -> int:
    """Between two graphemes, or inside one that is longer than a whole chunk."""
    cut = grapheme_cut(text, start, reach)
    return cut if cut > start else reach


def _after_cut(block: Block, cut: int) -> int:
    """Where the next part begins: past the spaces of prose, past the one line end of code."""
    if isinstance(block, Code):
        return cut + 1 if block.text[cut : cut + 1] == "\n" else cut
    while cut < len(block.text) and block.text[cut].isspace() and not block.style_at(cut).code:
        cut += 1
    return cut


def _same_quote(blocks: list[Block], number: int) -> bool:
    return number > 0 and blocks[number].quote != 0 and blocks[number].quote == blocks[number - 1].quote


def _append_shifted(entities: list[Entity], more: tuple[Entity, ...], by: int, *, same_quote: bool) -> None:
    """Adds a block's entities; a quotation that goes on is one entity, not two."""
    for entity in more:
        shifted = replace(entity, offset=entity.offset + by)
        if same_quote and entity.kind == "blockquote":
            above = max(number for number, one in enumerate(entities) if one.kind == "blockquote")
            whole = shifted.offset + shifted.length - entities[above].offset
            entities[above] = replace(entities[above], length=whole)
        else:
            entities.append(shifted)
