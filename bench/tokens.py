"""How far the estimate of tokens by script is from real tokenizers, for English, Chinese and code.

English is the pages in docs/, code the program's own, Chinese what the program says in Chinese and a made-up
conversation; `--file` measures any other text. `--tokenizer cl100k_base` measures against an older one.
"""

import argparse
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import bpe_openai

from trunkline.agent.tokens import estimate_text
from trunkline.gateway.sentences import CATALOGUE, HELP

ROOT = Path(__file__).parent.parent
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


def errors(kinds: Mapping[str, Sequence[str]], count: Callable[[str], int]) -> dict[str, float]:
    """The estimate of each kind against the real count: 0.1 is a tenth too many."""
    figures = {}
    for kind, given in kinds.items():
        real = sum(map(count, given))
        figures[kind] = sum(map(estimate_text, given)) / real - 1
    return figures


def main(asked: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.tokens", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--tokenizer", default="o200k_base", choices=["o200k_base", "cl100k_base"])
    parser.add_argument("--file", type=Path, action="append", default=[], help="measure this text instead")
    parser.add_argument("--json", action="store_true", help="one JSON object of numbers as the last line")
    arguments = parser.parse_args(asked)
    encoding = bpe_openai.get_encoding(arguments.tokenizer)
    kinds = {path.name: [path.read_text(encoding="utf-8")] for path in arguments.file} or texts()
    figures = errors(kinds, lambda text: len(encoding.encode(text, disallowed_special=())))
    if arguments.json:
        print(json.dumps({f"{kind}_error": round(error, 3) for kind, error in figures.items()}))
        return
    for kind, error in figures.items():
        print(f"{kind:24} {error:+7.1%}")


if __name__ == "__main__":
    main()
