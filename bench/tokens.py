"""How far the estimate of tokens by script is from real tokenizers, for English, Chinese and code.

English is the pages in docs/, code the program's own, Chinese what the program says in Chinese and a made-up
conversation; `--file` measures any other text. `--tokenizer cl100k_base` measures against an older one, and a
model's own `tokenizer.json` with `--model` against that.
"""

import argparse
import importlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import bpe_openai

from trunkline.agent.tokens import estimate_text
from trunkline.gateway.sentences import CATALOGUE, HELP

ROOT = Path(__file__).parent.parent
MODELS = {"o200k_base": "gpt-4o", "cl100k_base": "gpt-4"}
"""A model of each tokenizer that we have here."""
CHINESE_TALK = (
    "你好，我叫李娜，下周三要去杭州出差，想顺便看看西湖。你能帮我安排一下行程吗？",
    "好的。周三上午十点的高铁到杭州东站，中午可以在南宋御街吃饭，下午从断桥走到苏堤，大约两个小时。",
    "我不太能吃辣，而且晚上七点半要跟客户王先生在武林广场附近见面，别安排得太满。",
    "明白了。我把苏堤那一段缩短，六点前回到酒店休息，七点十分出发，打车大概十五分钟就能到。",
    "对了，上次你说的那家茶馆叫什么来着？我想带一点龙井回去送给我妈，她血压有点高，医生让她少喝浓茶。",
    "那家叫青藤茶馆，在南山路278号。送长辈的话可以选明前龙井的小包装，每天两三克淡一点泡就行。",
    "项目进度这边也记一下：接口文档周五之前要定稿，测试环境的数据库昨晚又断了一次，编号是 INC-20931。",
    "记下了。周五前定稿接口文档；INC-20931 这个故障我会在周四早上提醒你跟进，要不要我顺便列出待办清单？",
)


def texts() -> dict[str, list[str]]:
    """The texts measured, by kind."""
    english = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md"))]
    folders = ("agent", "adapters", "gateway")
    code = [
        path.read_text(encoding="utf-8") for name in folders for path in sorted((ROOT / name).rglob("*.py"))
    ]
    code += [path.read_text(encoding="utf-8") for path in sorted((ROOT / "adapters").rglob("*.js"))]
    said = [chinese for _, chinese in (*CATALOGUE.values(), *HELP.values())]
    han = re.compile(r"[\u4e00-\u9fff]")
    return {
        "english": [text for text in english if len(han.findall(text)) * 20 < len(text)],
        "chinese": ["\n".join(CHINESE_TALK), "\n".join(said)],
        "code": code,
    }


def errors(kinds: Mapping[str, Sequence[str]], count: Callable[[str], int], model: str) -> dict[str, float]:
    """The estimate of each kind against the real count: 0.1 is a tenth too many."""
    return {
        kind: sum(estimate_text(text, model) for text in given) / sum(map(count, given)) - 1
        for kind, given in kinds.items()
    }


def counting(tokenizer: str) -> Callable[[str], int]:
    """How a tokenizer counts: one that we have, or one in a file, which the package `tokenizers` reads."""
    if tokenizer in MODELS:
        known = bpe_openai.get_encoding(tokenizer)
        return lambda text: len(known.encode(text, disallowed_special=()))
    read = importlib.import_module("tokenizers").Tokenizer.from_file(tokenizer)
    return lambda text: len(read.encode(text, add_special_tokens=False).ids)


def main(asked: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.tokens", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--tokenizer", default="o200k_base", help=f"{', '.join(MODELS)}, or a file")
    parser.add_argument("--model", help="what the model of such a file is called")
    parser.add_argument("--file", type=Path, action="append", default=[], help="measure this text instead")
    parser.add_argument("--json", action="store_true", help="one JSON object of numbers as the last line")
    arguments = parser.parse_args(asked)
    model = arguments.model or MODELS.get(arguments.tokenizer, "")
    kinds = {path.name: [path.read_text(encoding="utf-8")] for path in arguments.file} or texts()
    figures = errors(kinds, counting(arguments.tokenizer), model)
    if arguments.json:
        print(json.dumps({f"{kind}_error": round(error, 3) for kind, error in figures.items()}))
        return
    for kind, error in figures.items():
        print(f"{kind:24} {error:+7.1%}")


if __name__ == "__main__":
    main()
