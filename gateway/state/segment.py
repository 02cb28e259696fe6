"""Words in runs of scripts without spaces, for queries only: the index holds single characters.

Chinese is cut by jieba, whose dictionary is read on first use (about a second; never on the event loop, as
searches run on the reader threads). Other scripts, and what jieba doesn't know, become pairs of characters.
"""

import importlib
import logging
import re
import threading
import warnings
from collections.abc import Iterator
from typing import Any

from trunkline.gateway.state.analyser import HAN
from trunkline.gateway.state.stopwords import CHINESE

_ONLY_HAN = re.compile(f"[{HAN}]+")
_lock = threading.Lock()
_cutters: list[Any] = []


def cut(run: str) -> list[str]:
    """The words of one run of characters, each of at least one; their order is the run's."""
    if len(run) <= 2:
        return [run]
    if not _ONLY_HAN.fullmatch(run):
        return _pairs(run)
    return list(_joined(_cutter().cut(run)))


def _joined(words: Iterator[str]) -> Iterator[str]:
    """Words, with neighbouring single characters (names, words unknown to jieba) joined to pairs.

    Particles stay alone: a pair across one would say little.
    """
    loose = ""
    for word in words:
        if len(word) == 1 and word not in CHINESE:
            loose += word
            continue
        yield from _loose(loose)
        loose = ""
        yield word
    yield from _loose(loose)


def _loose(run: str) -> list[str]:
    return _pairs(run) if len(run) > 2 else list(run)


def _pairs(run: str) -> list[str]:
    return [run[place : place + 2] for place in range(len(run) - 1)] or list(run)


def _cutter() -> Any:
    """jieba's tokenizer, made without its cache file: that lies in a folder other users can write to."""
    with _lock:
        if not _cutters:
            logging.getLogger("jieba").setLevel(logging.WARNING)
            with warnings.catch_warnings():
                # Its source has escapes that newer Pythons warn of when they compile it.
                warnings.simplefilter("ignore")
                jieba: Any = importlib.import_module("jieba")
            tokenizer = jieba.Tokenizer()
            tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(tokenizer.get_dict_file())
            tokenizer.initialized = True
            _cutters.append(tokenizer)
        return _cutters[0]
