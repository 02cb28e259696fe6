"""English words whose forms no stemmer joins: `bought` is `buy`, `children` are `child`.

Forms that are also common words of their own (left, saw, rose, leaves, better) are not here.
"""

# The forms of one word between two bars or line ends, the plain one first.
_FORMS = """
become became|begin began begun|bend bent|bind bound|bleed bled|blow blew blown|break broke broken|breed bred
bring brought|build built|burn burnt|buy bought|catch caught|choose chose chosen|cling clung|come came
creep crept|deal dealt|dig dug|draw drew drawn|dream dreamt|drink drank drunk|drive drove driven|eat ate eaten
fall fell fallen|feed fed|feel felt|fight fought|find found|flee fled|fly flew flown|forbid forbade forbidden
forget forgot forgotten|forgive forgave forgiven|freeze froze frozen|get got gotten|give gave given
go went gone|grow grew grown|hang hung|hear heard|hide hid hidden|hold held|keep kept|kneel knelt
know knew known|lead led|lean leant|leap leapt|learn learnt|lend lent|lose lost|make made|mean meant|meet met
mistake mistook mistaken|pay paid|prove proven|ride rode ridden|ring rang rung|run ran|say said|seek sought
sell sold|send sent|sew sewn|shake shook shaken|shine shone|shoot shot|show shown|shrink shrank shrunk
sing sang sung|sink sank sunk|sleep slept|slide slid|speak spoke spoken|spend spent|spill spilt|spin spun
spring sprang sprung|stand stood|steal stole stolen|stick stuck|sting stung|strike struck|strive strove
swear swore sworn|sweep swept|swell swollen|swim swam swum|swing swung|take took taken|teach taught
tear tore torn|tell told|think thought|throw threw thrown|understand understood|wake woke woken
wear wore worn|weave wove woven|weep wept|win won|withdraw withdrew withdrawn|write wrote written
child children|foot feet|goose geese|man men|mouse mice|tooth teeth|wife wives|woman women|knife knives
shelf shelves|wolf wolves|thief thieves|half halves|loaf loaves
"""

PLAIN_FORMS = {
    form: plain
    for line in _FORMS.replace("\n", "|").split("|")
    for plain, *forms in [line.split() or [""]]
    for form in forms
}
"""The plain form by each other one."""
