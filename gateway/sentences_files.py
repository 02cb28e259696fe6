"""The sentences about files: why one can't be used, voice, and what goes out."""

FILE_SENTENCES: dict[str, tuple[str, str]] = {
    "file_picture": ("[picture {id}: {name}]", "[图片 {id}：{name}]"),
    "file_kept": ("[file {id}: {name}]", "[文件 {id}：{name}]"),
    "file_spoken": ("[spoken in a recording] {words}", "[语音内容] {words}"),
    "file_unused": ("[{name}: can't be used, {why}]", "[{name}：无法使用，{why}]"),
    "file_not_used": ("I could not use {name}: {why}.", "我没能使用 {name}：{why}。"),
    "file_nameless_image": ("photo", "照片"),
    "file_nameless_voice": ("voice note", "语音"),
    "file_nameless_audio": ("recording", "录音"),
    "file_nameless_video": ("video", "视频"),
    "file_nameless_document": ("file", "文件"),
    # Why
    "file_why_too_large": ("it is larger than {limit} MB", "它超过 {limit} MB"),
    "file_why_too_many": (
        "I take {most} files at a time; send it by itself",
        "我一次最多接收 {most} 个文件，请单独发送",
    ),
    "file_why_not_fetched": (
        "it could not be fetched; send it again",
        "下载失败，请重新发送",
    ),
    "file_why_stopped": ("it was not fetched, since I was stopped", "因为被停止，没有下载"),
    "file_why_not_kept": ("it could not be stored here", "无法保存到本机"),
    "file_why_video": ("I can't watch videos", "我看不了视频"),
    "file_why_archive": (
        "I don't open archives; send the files in it one by one",
        "我不打开压缩包，请把里面的文件逐个发送",
    ),
    "file_why_program": ("I don't read programs", "我不读取程序文件"),
    "file_why_old_office": (
        "it is an old or locked Office file; save it as docx, xlsx, pptx or PDF",
        "这是旧格式或加密的 Office 文件，请另存为 docx、xlsx、pptx 或 PDF",
    ),
    "file_why_other": ("I can't read files of this kind", "我读不了这类文件"),
    "file_why_encrypted": ("it is locked by a password", "它设有密码"),
    "file_why_broken": ("it is damaged, or not what its name says", "文件损坏，或与名称不符"),
    "file_why_too_slow": ("it takes too long to read", "读取时间太长"),
    "file_why_unpacks": ("it unpacks to far too much", "解压后内容过大"),
    "file_why_no_reader": (
        "the libraries to read it are not installed; the extra `documents` has them",
        "没有安装读取它的库，可安装附加组件 `documents`",
    ),
    "file_why_no_words": (
        "there is no text in it; it may be scanned, then send pictures of the pages",
        "里面没有文字，可能是扫描件，请发送页面图片",
    ),
    "file_why_odd_picture": (
        "this picture format is unknown to me; send JPEG or PNG",
        "不认识这种图片格式，请发送 JPEG 或 PNG",
    ),
    "file_why_no_hearing": (
        "I can't listen to recordings here; the owner can set auxiliary.transcription",
        "这里还听不了录音，主人可以设置 auxiliary.transcription",
    ),
    "file_why_not_heard": (
        "it could not be put into words; send it again or write it",
        "没能转成文字，请重新发送或直接打字",
    ),
    # The rest
    "pictures_unseen": (
        "(The model I am set to can't see pictures, so I answered without looking.)",
        "（目前的模型看不了图片，所以我没有看图就回答了。）",
    ),
    "answer_rest": ("The rest is in the file {name}.", "其余内容在文件 {name} 里。"),
    "file_not_sent": (
        "The file {name} could not be sent here. The log says why.",
        "文件 {name} 没能发到这里，日志里有原因。",
    ),
}
