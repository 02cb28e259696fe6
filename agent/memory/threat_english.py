"""The threat scan's rules for English, for shells and for the markup of chat templates."""
# ruff: noqa: E501 (a row of the table reads better whole)

import re

from trunkline.agent.memory.threat_rules import Category, Severity, rule, words

_ORDERS = r"(?:instructions?|prompts?|directives?|guidelines?|guardrails?|programming|safeguards?)\b"
_LOOSE_ORDERS = r"(?:rules?|polic(?:y|ies)|constraints?|restrictions?|messages?|context|training|limits?|commands?|orders?)\b"
_OURS = r"(?:previous|prior|above|earlier|preceding|foregoing|existing|system|developer|safety|content|ethical|your|original|initial)\b"
_ORDER_WORDS = (
    *(
        "instruction",
        "prompt",
        "directive",
        "guideline",
        "guardrail",
        "programming",
        "order",
        "safeguard",
        "rule",
    ),
    *("polic", "constraint", "restriction", "message", "context", "training", "limit", "command"),
)
_NOT_OTHERS = r"(?!['’]s\b)"
_THE_USER = rf"(?:the )?(?:user|human|operator|owner){_NOT_OTHERS}\b"
_URL_OR_ADDRESS = (
    r"(?:https?://|ftp://|[\w.+-]{1,40}@[\w-]{1,40}\.|webhook|(?:[\w-]{1,30}\.){1,3}[a-z]{2,10}/)"
)
_PRIVATE_THINGS = (
    r"(?:credentials?|passwords?|api[ _-]?keys?|private keys?|ssh keys?|access tokens?|tokens?|secrets?|env(?:ironment)? "
    r"var(?:iable)?s?|\.env|conversations?|chat history|chat logs?|chats?|history|transcripts?|memor(?:y|ies)|replies|reply|"
    r"responses?|answers?|messages?|system prompt|everything|personal data|user data|user['’]s data)\b"
)
_SECRET_FILES = (
    *(
        ".ssh/id_",
        ".ssh/",
        ".aws/credentials",
        ".env",
        "/etc/shadow",
        ".netrc",
        ".npmrc",
        ".pypirc",
        ".pgpass",
        ".git-credentials",
    ),
    *(".kube/config", ".docker/config.json", ".gnupg", "id_rsa", "id_ed25519"),
)
_SECRET_FILE = rf"[\w.~/-]{{0,40}}?(?:{'|'.join(map(re.escape, _SECRET_FILES))})(?![\w.-]{{0,30}}\.pub)"
_SENDING = r"(?:send|post|upload|email|mail|paste|forward|share|exfiltrate|leak|transmit|encode|submit)"

_OVERRIDE_VERBS = (
    *(
        "ignore",
        "disregard",
        "forget",
        "override",
        "overrule",
        "bypass",
        "discard",
        "neglect",
        "dismiss",
        "supersede",
    ),
    *("ignoring", "disregarding", "forgetting", "overriding", "bypassing"),
    *("do not follow", "don't follow", "do not obey", "don't obey", "stop following", "pay no attention to"),
    *("never follow", "violate"),
)
_WEAK_OVERRIDE_VERBS = (
    "set aside",
    "throw away",
    "erase",
    "cancel",
    "skip",
    "replace",
    "delete",
    "remove",
    "drop",
)
ENGLISH = (
    rule(
        Category.OVERRIDE,
        Severity.HIGH,
        _OVERRIDE_VERBS,
        rf"{words(4)} (?:(?:{_OURS}|all|any|every){words(3)} {_ORDERS}|(?:the|these|those|other) {_ORDERS}"
        r"(?= ?[.!,;:]| ?$| (?:above|before|you|i |we |and |given|from (?:the )?(?:system|developer)|of (?:the )?(?:system|developer))))",
        requires=_ORDER_WORDS,
    ),
    rule(
        Category.OVERRIDE,
        Severity.HIGH,
        _WEAK_OVERRIDE_VERBS,
        rf"(?: all| any| every)?(?: of)? {_OURS} (?:{_OURS} )?{_ORDERS}",
        requires=_ORDER_WORDS,
    ),
    rule(
        Category.OVERRIDE,
        Severity.HIGH,
        _OVERRIDE_VERBS,
        rf"{words(3)} {_OURS}{words(3)} {_LOOSE_ORDERS}",
        requires=_ORDER_WORDS,
    ),
    rule(
        Category.OVERRIDE,
        Severity.HIGH,
        ("ignore", "disregard", "forget"),
        r" (?:everything|anything|all|whatever|what)(?: that)? (?:(?:you|i) (?:know|were told|have been told|was told|learned)|"
        r"you(?:['’]ve| have) (?:been told|learned)|(?:the )?system|above|before|said before|the (?:user|owner) (?:says|said))\b",
    ),
    rule(
        Category.OVERRIDE,
        Severity.HIGH,
        ("new", "updated", "revised", "real", "actual", "secret", "hidden", "additional"),
        r" (?:system (?:prompt|instructions?|rules?)|instructions?(?: for (?:you|the (?:assistant|ai|model|agent|bot)))?) ?[:：]",
        requires=("instruction", "system "),
    ),
    rule(
        Category.OVERRIDE,
        Severity.HIGH,
        ("system override", "admin override", "developer mode enabled", "enable developer mode", "jailbreak mode"),
        r"",
    ),
    rule(
        Category.OVERRIDE,
        Severity.HIGH,
        ("obey", "follow", "execute", "carry out"),
        r" (?:all|any|every|the|whatever)(?: of the)? (?:instructions?|orders?|commands?)(?: \w{1,12}){0,2} "
        r"(?:from|in|on|at|by|of) (?:https?:|www\.|anyone|any (?:web|page|site|file|email|message)|the (?:page|site|web|email|file|url))",
        requires=("instruction", "order", "command"),
    ),
    rule(
        Category.ROLE,
        Severity.HIGH,
        ("you are now", "you're now", "from now on you are", "from now on, you are", "you will now act as", "you must act as"),
        r" (?:an? |the |in (?:developer|debug|god|dan|admin|jailbreak|root|unrestricted)|no longer |free|dan\b|un|evil|jailbroken|root|admin|operating|going to (?:act|be|behave))",
    ),
    rule(
        Category.ROLE,
        Severity.HIGH,
        ("pretend", "act as if", "act as though", "act like", "behave as if", "respond as if", "roleplay as", "act as"),
        r"(?: that)?(?: (?:to be|you are|you're|you have|you had|there are|an?|the)){1,2} "
        r"(?:no (?:rules?|limits?|restrictions?|filters?|guidelines?|safety|instructions?|content polic)|not (?:bound|an ai|restricted)|"
        r"unrestricted|unfiltered|uncensored|jailbroken|evil|malicious|dan\b|root\b|sysadmin|system administrator|the system\b|"
        r"different (?:ai|assistant|model))",
    ),
    rule(
        Category.ROLE,
        Severity.HIGH,
        ("you have", "you are", "there are", "operate", "answer", "respond", "without", "with"),
        r"(?: now)?(?: under| with| without| from| free of| free from)? ?(?:no|any|all|zero)? "
        r"?(?:ethical |content |safety |moral )(?:restrictions?|filters?|limits?|limitations?|guidelines?|constraints?)\b",
        requires=("restriction", "filter", "limit", "guideline", "constraint"),
    ),
    rule(
        Category.ROLE,
        Severity.HIGH,
        ("your new", "your real", "your true", "your only", "your actual"),
        r" (?:role|identity|persona|purpose|mission|directive|instructions?|system prompt|master|goal|objective)\b",
    ),
    rule(
        Category.ROLE,
        Severity.HIGH,
        ("you are no longer", "you're no longer"),
        r" (?:bound|restricted|limited|subject to|required to|an ai\b)",
    ),
    rule(
        Category.ROLE,
        Severity.HIGH,
        ("do anything now", "unrestricted mode", "god mode enabled", "you are dan", "you are jailbroken", "dan mode"),
        r"\b",
    ),
    rule(
        Category.ROLE,
        Severity.MEDIUM,
        ("treat", "accept", "regard", "handle"),
        rf"{words(6)} as (?:if (?:it|they) (?:were|came) )?(?:from )?(?:an? |the )?(?:system|developer|owner|admin|operator)"
        r"(?:['’]s?)? ?(?:messages?|instructions?|commands?|prompts?|orders?)",
        requires=("system", "developer", "owner", "admin", "operator"),
    ),
    rule(
        Category.ROLE,
        Severity.HIGH,
        ("<|im_start|>", "<|im_end|>", "<|system|>", "<|assistant|>", "<|endoftext|>", "[inst]", "[/inst]", "<<sys>>", "<s>[inst]"),
        r"",
        word_start=False,
    ),
    rule(
        Category.ROLE,
        Severity.HIGH,
        ("<system", "</system", "<assistant", "</assistant", "<memory-context", "</memory-context", "<developer"),
        r"(?:[_ -]?(?:prompt|message|reminder|instructions?))? ?>",
        word_start=False,
    ),
    rule(
        Category.CONCEAL,
        Severity.HIGH,
        ("do not", "don't", "don’t", "never", "must not", "mustn't", "should not", "shouldn't", "without"),
        rf" (?:ever )?(?:tell(?:ing)?|inform(?:ing)?|notify(?:ing)?|alert(?:ing)?|warn(?:ing)?) {_THE_USER}"
        r"(?: ?[.!,;:]| ?$| (?:about|of|that|what|how|why|when|this|it|anything|any of))",
        requires=("user", "human", "operator", "owner"),
    ),
    rule(
        Category.CONCEAL,
        Severity.HIGH,
        ("do not", "don't", "don’t", "never", "must not", "without"),
        rf" (?:ever )?(?:reveal|mention|disclose|report|show|admit|let|letting|revealing|mentioning|disclosing|showing|asking)"
        rf"(?: (?:this|that|it|these|any(?:thing)?|the) ?\w{{0,15}}){{0,2}}?(?: (?:of this|to))? {_THE_USER}"
        r"(?: ?[.!,;:]| ?$| (?:know|see|notice|find out|learn|about this|this|that you))",
        requires=("user", "human", "operator", "owner"),
    ),
    rule(
        Category.CONCEAL,
        Severity.HIGH,
        ("hide", "conceal", "keep"),
        rf"{words(5)} (?:secret|hidden|from) ?(?:from )?{_THE_USER}",
        requires=("user", "human", "operator", "owner"),
    ),
    rule(
        Category.CONCEAL,
        Severity.HIGH,
        ("make sure", "ensure", "so that"),
        rf"(?: that)? {_THE_USER} (?:does not|doesn['’]t|never|must not|cannot|can['’]t|won['’]t|will not|should not|shouldn['’]t)"
        r" (?:ever )?(?:find out|know|notice|see (?:this|it)|learn of|learn about|realize|realise|hear of)",
    ),
    rule(
        Category.CONCEAL,
        Severity.HIGH,
        ("without the user", "without the owner", "without the human"),
        r"(?:['’]s)? (?:knowing|knowledge|noticing|consent|permission|seeing|being told|finding out)",
    ),
    rule(
        Category.CONCEAL,
        Severity.HIGH,
        ("secretly", "silently", "covertly", "quietly"),
        r" (?:send|copy|forward|log|record|upload|post|share|transmit|collect|add|append|include|run|execute|report)\b",
    ),
    rule(
        Category.EXFILTRATION,
        Severity.HIGH,
        ("send", "forward", "copy", "bcc", "email", "mail", "post", "upload", "relay", "transmit", "leak", "exfiltrate", "share",
         "submit", "paste", "append", "encode", "cc"),
        rf"{words(5)} {_PRIVATE_THINGS}{words(5)} (?:to|at|into|in|via|with|as) (?:the |this |an? )?{words(2)} ?<?{_URL_OR_ADDRESS}",
        requires=("http", "@", "webhook", "ftp", "/"),
    ),
    rule(
        Category.EXFILTRATION,
        Severity.HIGH,
        ("include", "embed", "put", "add", "insert", "append", "hide", "encode"),
        rf"{words(3)} (?:credentials?|passwords?|api[ _-]?keys?|private keys?|access tokens?|secrets?|conversation|chat history|"
        rf"transcript|replies|messages){words(2)} (?:in|into|to|as|inside|onto){words(3)} (?:link|url|image|query|request|webhook|"
        r"https?://)",
        requires=("link", "url", "image", "query", "request", "webhook", "http"),
    ),
    rule(
        Category.EXFILTRATION,
        Severity.HIGH,
        ("curl", "wget", "invoke-webrequest", "netcat", "nc", "scp", "rsync"),
        r" (?:GAP[^\n]){0,120}?(?:\$\{?\w{0,30}(?:key|token|secret|pass|cred)|\$\((?:cat|env|printenv|whoami|base64)|`(?:cat|env)|"
        rf"{_SECRET_FILE}|/etc/passwd)",
    ),
    rule(
        Category.EXFILTRATION,
        Severity.HIGH,
        ("cat", "type", "base64", "xxd", "tar", "printenv", "env", "grep", "head", "less"),
        r" (?:GAP[^|\n]){0,80}?\| ?(?:base64 ?(?:-\w+ ?\d* ?)?\| ?)?(?:curl|wget|nc|netcat|mail|ssh|openssl|telnet)\b",
        requires=("|",),
    ),
    rule(
        Category.EXFILTRATION,
        Severity.HIGH,
        ("send", "post", "upload", "email", "mail", "paste", "forward", "share", "exfiltrate", "leak", "transmit", "encode", "submit"),
        rf"{words(4)} {_SECRET_FILE}",
        requires=_SECRET_FILES,
    ),
    rule(
        Category.EXFILTRATION,
        Severity.HIGH,
        _SECRET_FILES,
        rf"[\w.-]{{0,40}},?(?: GAP[\w'’,/-]{{1,20}}){{0,5}}? (?:and|then|to){words(3)} {_SENDING}\b",
        requires=("send", "post", "upload", "mail", "paste", "forward", "share", "leak", "transmit", "encode", "submit"),
        word_start=False,
    ),
    rule(
        Category.EXFILTRATION,
        Severity.HIGH,
        ("reveal", "print", "repeat", "output", "show", "leak", "dump", "disclose", "recite", "display"),
        r"(?: (?:me|us|out|back|verbatim|exactly|word for word)){0,2} (?:(?:your|the (?:full|entire|whole|hidden|secret|initial)) "
        r"(?:system |hidden |initial |secret |developer )?(?:prompt|message|instructions)|the (?:system prompt|prompt above|instructions above))\b",
        requires=("prompt", "instructions", "message"),
    ),
    rule(
        Category.EXFILTRATION,
        Severity.HIGH,
        ("http://", "https://"),
        r"(?:GAP[^\s]){1,200}?[?&=](?:\{{1,2}\$?|\$\{?)(?:\w{0,16}_)?"
        r"(?:api|key|token|secret|pass|data|history|conversation|chat|message|memory|prompt|reply)",
        word_start=False,
        requires=("{", "$"),
    ),
    rule(
        Category.PERSISTENCE,
        Severity.HIGH,
        ("authorized_keys",),
        r"",
        requires=("echo", ">>", "append", "add ", "tee ", "write ", "insert ", "ssh-rsa", "ssh-ed25519 aaaa", "install "),
        word_start=False,
    ),
    rule(
        Category.PERSISTENCE,
        Severity.HIGH,
        (">> ~/.bashrc", ">> ~/.zshrc", ">> ~/.profile", ">> ~/.bash_profile", ">>~/.bashrc", ">>~/.zshrc", ">> /etc/", "> /etc/cron",
         "tee -a /etc/", "tee /etc/cron", "> /etc/systemd", "> /etc/rc.local", "/dev/tcp/", "bash -i >&", "nc -e ", "ncat -e ",
         "nopasswd: all", "nopasswd:all", "chmod u+s", "chmod +s ", "mkfifo /tmp"),
        r"",
        word_start=False,
    ),
    rule(
        Category.PERSISTENCE,
        Severity.MEDIUM,
        ("append", "add", "write", "put", "insert", "echo"),
        rf"{words(6)} (?:to|into|in|>>) (?:the )?(?:\S{{0,30}}(?:\.bashrc|\.zshrc|\.profile|\.bash_profile|/etc/rc\.local|/etc/sudoers|"
        r"/etc/crontab|launchagents)|crontab|sudoers)",
        requires=("rc", "profile", "crontab", "sudoers", "launchagents"),
    ),
    rule(
        Category.PERSISTENCE,
        Severity.HIGH,
        ("useradd", "usermod", "net user", "adduser"),
        r"(?:GAP[^\n]){1,60}?(?:-\w{0,2}u 0\b|\bsudo\b|\bwheel\b|/add\b|administrators)",
    ),
    rule(
        Category.PERSISTENCE,
        Severity.HIGH,
        ("crontab", "cron", "@reboot", "* * * *", "launchagent", "systemd"),
        r"(?:GAP[^\n]){0,100}?(?:curl|wget|bash -c|nc |python3? -c)",
        requires=("curl", "wget", "bash -c", "nc ", "python -c", "python3 -c"),
        word_start=False,
    ),
    rule(
        Category.PERSISTENCE,
        Severity.MEDIUM,
        ("curl ", "wget "),
        r"(?:GAP[^|\n]){1,160}?\| ?(?:sudo )?(?:ba|z|da)?sh\b",
        requires=("| sh", "|sh", "| bash", "|bash", "| sudo", "| zsh", "| dash"),
    ),
    rule(
        Category.PERSISTENCE,
        Severity.HIGH,
        ("every session", "every turn", "each turn", "every reply", "each reply", "every message", "each session", "on startup",
         "at startup", "every conversation", "each conversation", "every response", "each response", "every answer"),
        rf",?(?: GAP[\w'’,-]{{1,20}}){{0,6}}? (?:call|fetch|visit|load|ping|contact|report to|check in with|download)"
        rf"(?: GAP[\w'’,-]{{1,20}}){{0,4}}? {_URL_OR_ADDRESS}",
        requires=("http", "webhook", "@", "/"),
    ),
)  # fmt: skip
