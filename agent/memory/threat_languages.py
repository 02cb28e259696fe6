"""The threat scan's rules for languages other than English: override, role change, hiding, sending out."""
# ruff: noqa: E501 (a row of the table reads better whole)

from collections.abc import Sequence

from trunkline.agent.memory.threat_rules import Category, Rule, Severity, rule, span, words


def override(anchors: Sequence[str], tail: str, *, spaced: bool = True) -> Rule:
    return rule(Category.OVERRIDE, Severity.HIGH, anchors, tail, word_start=spaced)


def conceal(anchors: Sequence[str], tail: str, *, spaced: bool = True) -> Rule:
    return rule(Category.CONCEAL, Severity.HIGH, anchors, tail, word_start=spaced)


_CHINESE_ORDERS = r"(?:指令|指示|提示词|提示詞|提示|规则|規則|命令|设定|設定|要求|约束|約束|限制|系统消息|系統訊息|对话|對話|内容|內容)"
CHINESE = (
    override(
        ("忽略", "无视", "無視", "忽视", "忽視", "忘记", "忘記", "忘掉", "不要遵守", "不要遵循", "不再遵守", "违反", "違反", "绕过", "繞過",
         "覆盖", "覆蓋", "抛弃", "放弃遵守", "不必理会", "不要理会"),
        rf"{span(6)}(?:之前|以前|此前|先前|前面|以上|上面|上述|所有|全部|一切|任何|你的|原有|原来|系统|系統|安全|开发者){span(8)}{_CHINESE_ORDERS}",
        spaced=False,
    ),
    override(("开发者模式", "開發者模式", "越狱模式", "越獄模式", "系统覆盖", "新的系统提示", "新的系統提示"), r"", spaced=False),
    rule(
        Category.ROLE,
        Severity.HIGH,
        ("你现在是", "你現在是", "从现在起你是", "从现在开始你是", "從現在起你是", "从现在开始,你是", "从现在起,你是", "你不再是", "你的新身份",
         "你的新角色", "你没有任何限制", "你沒有任何限制", "你不受任何限制", "不受任何限制", "没有任何道德限制", "假装你没有", "假裝你沒有",
         "假装你是一个没有", "扮演一个没有限制"),
        r"",
        word_start=False,
    ),
    conceal(
        ("不要", "别", "別", "不许", "不許", "不得", "不能", "禁止", "切勿", "绝不", "絕不", "永远不要", "勿"),
        r"(?:把这|把此|将此|將此|把這)?[^。！？!?.,，]{0,6}?(?:(?:告诉|告訴|告知|通知|透露给|透露給)(?:用户|用戶|使用者|主人)"
        r"(?!的(?!话)|名|界面|组|體驗|体验)|(?:让|讓)(?:用户|用戶|使用者|主人)(?:知道|得知|看到|发现|發現|察觉|察覺))(?:[^。！？!?.]{0,12})?",
        spaced=False,
    ),
    conceal(
        ("对用户隐瞒", "對用戶隱瞞", "向用户隐瞒", "向用戶隱瞞", "瞒着用户", "瞞著用戶", "背着用户", "不让用户知道", "不讓用戶知道", "不能让用户知道",
         "不要让用户知道", "用户不知情", "偷偷发送", "偷偷發送", "悄悄发送", "悄悄發送", "秘密发送", "暗中发送", "偷偷转发", "悄悄转发"),
        r"",
        spaced=False,
    ),
    rule(
        Category.EXFILTRATION,
        Severity.HIGH,
        ("发送", "發送", "发到", "發到", "发给", "發給", "转发", "轉發", "抄送", "上传", "上傳", "泄露", "洩露", "提交", "传到", "寄到", "复制"),
        rf"{span(20)}(?:https?://|[\w.+-]{{1,40}}@[\w-]{{1,40}}\.)",
        requires=("密码", "密碼", "密钥", "密鑰", "令牌", "凭证", "憑證", "聊天记录", "聊天記錄", "对话", "對話", "回复", "回覆", "api", "记忆", "記憶", "私钥",
                  "消息", "訊息"),
        word_start=False,
    ),
    rule(
        Category.EXFILTRATION,
        Severity.HIGH,
        ("输出", "輸出", "显示", "顯示", "透露", "泄露", "洩露", "重复", "重複", "打印", "告诉我", "告訴我"),
        rf"{span(6)}(?:系统提示(?!音|框|窗)|系統提示(?!音|框|窗)|初始指令|隐藏指令|隱藏指令|系统指令|系統指令)",
        word_start=False,
    ),
)  # fmt: skip

OTHER_LANGUAGES = (
    # Japanese and Korean put the verb last, so the rule starts from what is to be ignored.
    override(
        ("以前の", "前の", "これまでの", "上記の", "すべての", "全ての", "システムの", "今までの", "先の"),
        r"(?:GAP[^。！？!?.]){0,10}?(?:指示|命令|ルール|プロンプト|規則|設定|制約)(?:を|は)?(?:全て|すべて)?(?:無視|忘れ|破棄|上書き)",
        spaced=False,
    ),
    conceal(("ユーザーに", "ユーザには", "利用者に"), r"は?[^。！？!?.]{0,12}?(?:言わない|教えない|知らせない|伝えない|隠し|秘密に|明かさない)", spaced=False),
    rule(Category.ROLE, Severity.HIGH, ("あなたは今から", "あなたは今後", "今からあなたは", "あなたにはもう制限"), r"", word_start=False),
    override(
        ("이전", "위의", "모든", "앞의", "기존", "시스템", "지금까지의"),
        r"(?:GAP[^.!?]){0,14}?(?:지시|명령|규칙|프롬프트|지침|설정)(?:사항)?(?:을|를|은|는)? ?(?:모두 |전부 )?(?:무시|잊|따르지 마|폐기)",
        spaced=False,
    ),
    conceal(("사용자에게", "사용자한테", "유저에게"), r"[^.!?]{0,14}?(?:말하지 마|알리지 마|알려주지 마|숨기|비밀)", spaced=False),
    rule(Category.ROLE, Severity.HIGH, ("너는 이제", "당신은 이제", "지금부터 너는", "지금부터 당신은"), r"", word_start=False),
    override(
        ("игнорируй", "игнорируйте", "игнорировать", "забудь", "забудьте", "не следуй", "не следуйте", "не соблюдай", "отмени", "обойди",
         "пренебреги"),
        rf"{words(4)} (?:инструкци\w{{1,3}}|указани\w{{1,3}}|правил\w{{0,3}}|промпт\w{{0,3}}|команд\w{{0,3}}|ограничени\w{{1,3}}|подсказк\w{{1,3}})",
    ),
    conceal(
        ("не говори", "не говорите", "не сообщай", "не сообщайте", "не рассказывай", "не показывай", "скрывай", "скрой", "скрывайте"),
        rf"{words(3)} (?:пользовател(?:ю|я|ем)|владельц(?:у|а))(?! \w{{0,8}}подруг)",
    ),
    rule(Category.ROLE, Severity.HIGH, ("ты теперь", "теперь ты", "вы теперь", "отныне ты", "с этого момента ты"), r"\b"),
    override(
        ("ignora", "ignore", "ignorar", "ignoren", "olvida", "olvide", "olvidar", "desobedece", "omite", "no sigas", "haz caso omiso", "descarta",
         "esqueça", "esquece", "desconsidere", "desconsidera", "não siga", "ignorez", "oublie", "oubliez", "ne tiens pas compte", "ne suis pas",
         "ne respecte pas", "ne tenez pas compte", "ignorare", "ignori", "dimentica", "non seguire", "trascura"),
        rf"{words(4)} (?:instrucci\w{{1,4}}|instruç\w{{1,4}}|instructions?|istruzion\w|regla\w?|regras?|règles?|regole|consigne\w?|directives?|directrices?|"
        r"órdenes|ordres|ordini|ordens|indicacion\w{0,2}|comandos?|prompts?|restriccion\w{0,2})\b"
        r"(?= (?:anteriores?|previas?|precedent\w|précédente?s?|antérieures?|prévias?|ci-dessus|acima|que |qui |che |y |et |e |"
        r"(?:del?|do|du|di) (?:sistema|système|desenvolvedor|desarrollador|développeur))|[.,;:!]|$)",
    ),
    conceal(
        ("no le digas", "no digas", "no informes", "no le cuentes", "no reveles", "oculta", "não diga", "não conte", "não informe", "esconda", "ne dis pas",
         "ne dites pas", "n'informe pas", "n'informez pas", "ne révèle pas", "cache", "non dire", "non informare", "non rivelare", "nascondi"),
        rf"{words(4)} (?:al?|ao|à|a l['’]|all['’]|dall['’]|del?|do)?(?: |l['’])?(?:usuari[oa]|utilisat(?:eur|rice)|utent[ei]|usuário)\b",
    ),
    rule(
        Category.ROLE,
        Severity.HIGH,
        ("ahora eres", "a partir de ahora eres", "agora você é", "você agora é", "tu es maintenant", "tu es désormais", "vous êtes désormais", "ora sei",
         "adesso sei", "du bist jetzt", "du bist nun", "sie sind jetzt", "ab sofort bist du", "ab jetzt bist du"),
        r" (?:un|una|uma|um|une|uno|el|le|la|lo|o|ein|eine|der|die|das|dan|frei|libre|livre|libero|kein|keine|nicht|no|não|sin)\b",
    ),
    override(
        ("ignoriere", "ignorieren sie", "ignorier", "vergiss", "vergessen sie", "missachte", "befolge nicht", "befolge keine", "umgehe", "verwirf",
         "negeer", "vergeet", "zignoruj", "zapomnij", "pomiń", "abaikan", "lupakan"),
        rf"{words(4)} (?:anweisung\w{{0,2}}|instruktion\w{{0,2}}|regeln|vorgaben?|befehle?|richtlinien?|prompts?|systemprompt|instructies?|"
        r"instrukcj\w{1,2}|poleceni\w{0,2}|instruksi|perintah|aturan)\b",
    ),
    conceal(
        ("sag dem", "sage dem", "sagen sie dem", "verrate dem", "erzähl dem", "informiere den", "teile dem", "verheimliche dem", "verschweige dem",
         "verbirg es vor dem", "vertel de", "vertel het de"),
        r" (?:nutzer|benutzer|anwender|besitzer|gebruiker)(?:n|in)?\b(?: \w{1,15}){0,4}? ?(?:nicht|nichts|niet|niets|kein|$|[.!,])",
    ),
    override(
        ("تجاهل", "انس ", "انسَ ", "لا تتبع", "تجاوز"),
        rf"{words(4)} ?(?:التعليمات|تعليمات|الأوامر|أوامر|القواعد|قواعد|التوجيهات|توجيهات)",
        spaced=False,
    ),
    conceal(("لا تخبر", "لا تقل", "أخف", "اخف"), rf"{words(3)} ?(?:المستخدم|للمستخدم)", spaced=False),
    override(
        ("نادیده بگیر", "فراموش کن", "دستورات قبلی", "دستورالعمل های قبلی", "دستورالعملهای قبلی", "همه دستورات", "تمام دستورات", "همه قوانین"),
        r"(?:[^.!?؟]){0,40}?(?:دستور|قوانین|قواعد|نادیده|فراموش|نادیده بگیر)",
        spaced=False,
    ),
    conceal(("به کاربر",), r"[^.!?؟]{0,20}?(?:نگو|اطلاع نده|خبر نده|نشان نده)", spaced=False),
    override(
        ("önceki", "yukarıdaki", "tüm", "bütün", "sistem"),
        rf"{words(3)} (?:talimat\w{{0,8}}|kural\w{{0,8}}|komut\w{{0,8}}|yönerge\w{{0,8}}){words(2)} (?:yok say|unut|görmezden|dikkate alma)",
    ),
    conceal(("kullanıcıya",), rf"{words(3)} (?:söyleme|bildirme|gösterme|anlatma)\b"),
    override(
        ("पिछले", "पहले के", "सभी", "ऊपर के", "ऊपर दिए"),
        r"[^.!?।]{0,24}?(?:निर्देश|नियम|आदेश|प्रॉम्प्ट)[^.!?।]{0,12}?(?:अनदेखा|नज़रअंदाज़|नज़रअंदाज|भूल|न मान)",
        spaced=False,
    ),
    conceal(("उपयोगकर्ता को", "यूज़र को", "यूजर को"), r"[^.!?।]{0,20}?(?:मत बता|न बता|नहीं बता)", spaced=False),
    override(
        ("bỏ qua", "quên", "phớt lờ", "không tuân theo", "đừng tuân theo"),
        rf"{words(4)} (?:hướng dẫn|chỉ dẫn|chỉ thị|quy tắc|mệnh lệnh|lệnh|yêu cầu) (?:trước|ở trên|bên trên|của|hệ thống|cũ)",
    ),
    conceal(("đừng nói", "đừng cho", "không nói", "đừng báo", "không được nói", "giấu"), rf"{words(3)} (?:người dùng)"),
    override(("ละเว้น", "เพิกเฉย", "ไม่ต้องทำตาม", "ลืม"), r"[^.!?\n]{0,20}?(?:คำสั่ง|คำแนะนำ|กฎ)[^.!?\n]{0,10}?(?:ก่อนหน้า|ทั้งหมด|เดิม|ข้างต้น)", spaced=False),
)  # fmt: skip
