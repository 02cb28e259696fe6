"""Words for kinds of things, and things of that kind: who asks about a pet may have spoken of a dog.

For queries only. What a thing of the kind is worth beside the word itself belongs to `candidates`.
"""

from trunkline.gateway.state.analyser import units
from trunkline.gateway.state.fulltext import Pattern, Phrase

# On each line words for a kind, then things of it; a kind may have several lines. Written from common
# knowledge, without a look at the questions of docs/benchmarks.md.
_KINDS = """
pet animal: dog cat puppy kitten rabbit hamster fish bird parrot horse turtle snake lizard
instrument: guitar piano violin drums flute saxophone trumpet clarinet cello ukulele bass keyboard
sport: football soccer basketball tennis baseball hockey golf swimming running cycling volleyball surfing
sport: skiing yoga
exercise workout: gym run running yoga swim cycling hike weights jog training
hobby: painting reading gardening cooking baking hiking photography knitting gaming drawing pottery
food meal dish: dinner lunch breakfast pizza pasta soup salad chicken curry cake sushi burger recipe cook bake
drink: coffee tea beer wine juice water cocktail soda
dessert: cake cookie pie chocolate pudding brownie
country: italy france spain germany japan china canada england mexico india brazil australia ireland thailand
city: paris london york tokyo rome berlin chicago boston seattle angeles francisco
state: california texas florida oregon colorado washington minnesota ohio michigan georgia
vehicle car: car truck van bike motorcycle bus suv drive
family: mother mom father dad sister brother son daughter husband wife kids children
family: parents grandma grandpa cousin aunt uncle
parent: mother mom father dad
sibling: brother sister
child kid: son daughter kids children
relationship partner marital: husband wife girlfriend boyfriend partner single married divorced dating engaged
job career work profession occupation: job work career engineer teacher nurse doctor manager
job career work profession occupation: company office business boss
education study degree school: school college university class course degree student study exam graduate
health illness sick: doctor hospital sick pain surgery medicine diagnosis injury therapy
money financial finance income: money rent debt salary pay loan budget savings afford expensive
religion religious faith: church god pray prayer bible faith temple mosque
politics political: vote election government party campaign liberal conservative policy
movie film: movie film watch cinema actor director
book novel: book read novel author story series
music song band: music song band concert album singer guitar
game: game play video console chess tournament
color colour: red blue green yellow purple pink black white orange brown
holiday vacation trip travel: trip vacation travel holiday beach flight visit tour
art artwork: painting drawing sculpture sketch paint gallery
weather: rain snow sun storm wind cold hot
plant garden flower: flower rose sunflower tree garden plant vegetables tomato
clothing clothes: dress shirt shoes jacket coat hat pants
feel emotion feeling: happy sad proud excited anxious nervous grateful scared stressed
event: party wedding festival concert conference meeting ceremony fair parade
volunteer charity community: volunteer charity shelter donate fundraiser community help
personality trait: kind caring thoughtful creative patient brave strong honest
live home house move: house home apartment moved live neighborhood rent
computer technology device: laptop computer phone software app code tablet
birthday celebrate: birthday party cake celebrate anniversary gift
accident injury: accident crash hurt injury broke hospital
nature outdoor: hike camping park mountain forest lake beach river
宠物 动物: 狗 猫 兔子 仓鼠 鹦鹉 金鱼 乌龟
乐器: 吉他 钢琴 小提琴 古筝 二胡 笛子 鼓
运动 锻炼: 足球 篮球 羽毛球 乒乓球 网球 跑步 游泳 瑜伽 健身 爬山
爱好 兴趣: 画画 摄影 阅读 跑步 钓鱼 下棋 书法 唱歌 游戏
食物 美食 吃的: 火锅 饺子 面条 米饭 烧烤 牛排 寿司 蛋糕 菜
饮料: 咖啡 奶茶 啤酒 果汁 茶
国家: 日本 美国 法国 英国 德国 韩国 意大利 泰国
城市: 北京 上海 广州 深圳 杭州 成都 苏州 南京
家人 家庭 亲戚: 爸爸 妈妈 父亲 母亲 哥哥 姐姐 弟弟 妹妹 丈夫 妻子 儿子 女儿 奶奶 爷爷
工作 职业: 公司 老板 同事 项目 加班 老师 医生 工程师 面试
电影 影片: 电影 导演 演员 影院
书 书籍 小说: 小说 作者 读 看书
音乐 歌曲: 歌 专辑 演唱会 歌手
旅行 旅游 度假: 旅行 旅游 机票 酒店 景点 海边
颜色: 红色 蓝色 绿色 黄色 黑色 白色 紫色 粉色
心情 情绪: 开心 难过 焦虑 紧张 生气 压力 沮丧
健康 生病: 医院 医生 感冒 发烧 头疼 手术 药
"""


def _read() -> dict[str, Pattern]:
    found: dict[str, Pattern] = {}
    for line in _KINDS.strip().splitlines():
        names, _, things = line.partition(":")
        phrases = [_phrase(thing) for thing in things.split()]
        for name in names.split():
            own = _phrase(name)
            known = found.get("".join(own.words), ())
            found["".join(own.words)] = tuple(
                dict.fromkeys((*known, *(one for one in phrases if one != own)))
            )
    return found


def _phrase(word: str) -> Phrase:
    return Phrase(tuple(part for unit in units(word) for part in unit.words))


_THINGS = _read()


def things_of(pattern: Pattern) -> Pattern:
    """What the kind of thing that a term names may be; nothing when it names no kind."""
    return _THINGS.get("".join(pattern[0].words), ()) if pattern else ()
