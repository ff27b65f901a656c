"""Words that stand where a name may and name no program: of grammar, of kind and of occasion."""

from __future__ import annotations

from typing import Final

from vllm_forensics.evidence.lazily import lazily

KINDS: Final = (
    "server|game|app|application|program|process|bot|browser|editor|emulator|engine|client|daemon|"
    "service|container|pod|instance|worker|deployment|broker|database|plugin|system|vm"
)
"""What people call a program by its kind."""
_HOW: Final = (
    "random|sudden|occasional|frequent|constant|instant|immediate|intermittent|weird|strange|odd|"
    "sporadic|repeated|consistent|possible|potential|rare|regular|common|infinite|complete|hard"
)
"""How crashes come."""
_LIKE_ADJECTIVES: Final = r"[a-z]+(?:al|ent|ant|om|ic|ive|ous|ble|ed)"
LIKE_ADJECTIVE: Final = lazily(rf"(?i){_LIKE_ADJECTIVES}$")
"""As a second word with a capital it is a part of a name."""
_NOBODY: Final = lazily(
    r"(?i)(?:pid|no|it|this|that|these|which|they|he|she|we|i|you|who|what|here|there|and|or|but|then|so|"
    r"all|some|most|many|any|none|each|both|either|neither|nothing|nobody|others?|one|two|"
    r"more|another|already|yet|the|an?|to|of|for|in|on|at|by|when|while|with|without|within|from|"
    r"after|before|during|as|via|per|without|within|into|onto|over|under|through|against|about|between|"
    r"among|until|unless|because|since|despite|like|than|such|same|every|its?|his|her|their|your|"
    r"us|them|me|him|not|never|also|now|still|just|always|often|again|"
    r"is|are|was|has|have|had|does|did|will|causes?|my|our|"
    r"v?\d[\w.]{0,12}|crash\w*|core|sig[a-z]{3,5}|segf\w*|panic\w*|hang\w*|"
    # adjectives of what comes often or once, and of its kind
    rf"{_HOW}|multiple|several|new|first|last|[a-z]+ly|[a-z]+ing|{_LIKE_ADJECTIVES}|"
    # what is done, and no one who does it
    r"[a-z]{3,}(?:tions?|ences?|ments?|ness)|"
    # what a thing is, and not whose name it is
    r"code|programs?|process(?:es)?|apps?|applications?|scripts?|games?|examples?|systems?|"
    r"everything|bugs?|issues?|errors?|tests?|jobs?|tasks?|containers?|pods?|steps?|builds?|targets?|"
    r"child(?:ren)?|parents?|threads?|runs?|sessions?|instances?|nodes|things?|users?|people|"
    r"read|write|memory|info|quer(?:y|ies)|requests?|mac ?os|windows|linux|ci|"
    r"caught|received|got|get|gets|met|meet|meets|moved?|moves|said|says|say|saw|seen?|hit|hits|face[sd]?|raised|unhandled|detected|encountered|"
    r"improve|fix|add|handle|avoid|prevent|support|implement|update|remove|debug|investigate|"
    r"detect|catch|collect|diagnose|reproduce|resolve|mitigate|suppress|trigger|cause|capture|ignore|"
    r"introduce|simulate|provoke|expose|reveal|force|ensure|analy[sz]e|find|help|exe|binar(?:y|ies)|"
    r"(?:[a-z]+-){1,2}[a-z]+(?:ed|ing|only|side|time)|shell|runtime|exit|status|software|computer|machine|file|function|call|command|update|version|release|commit|"
    # who reports it
    r"(?:ub|hw|kc?|[alkmt])a?san|\w*sanitizers?|faulthandler|"
    # what is called and loaded
    r"(?:load|stress|unit|smoke|integration)-?tests?|rocm|cuda|hip|opencl|vulkan|"
    r"import|xla|jit|gil|cudnn|[nr]ccl|(?:cu|open)?blas|mkl|openmp|pybind11|glibc|dataloader|"
    r"window|button|model|page|box|site|dbs?|databases?|os ?x|browser|tab|\w+\(\))$"
)
_MODEL: Final = lazily(
    r"(?i)(?:.{0,60}[-_.])?(?:\d{1,4}(?:\.\d{1,2})?[bm]|a\d{1,3}b|\d{1,2}x\d{1,3}b|int[48]|fp[48]|"
    r"[bf]?f16|w\d{1,2}a\d{1,2}|gptq|awq|gguf|instruct)(?:[-_.].{0,60})?$|"
    r"(?:qwen|llama|mistral|mixtral|deepseek|gemma|phi|(?:chat)?glm|falcon|gpt|yi|internvl|"
    r"internlm|minicpm|kimi|baichuan|opt|bloom)[-_.]?v?\d{1,3}(?:[-_.].{0,60})?$|"
    r"gpt-?(?:neox?|j|oss)\b.{0,60}$"
)
"""What is loaded and served: a model's name with its size, or with its family's number."""
_OCCASIONS: Final = lazily(
    r"(?i)(?:start(?:up)?|launch(?:er)?|boot|log-?(?:in|on|out|off)|sign-?(?:in|up|out)|export|import|"
    r"save|load(?:er)?|render(?:er)?|shut-?down|exit|quit|close|open|scroll|click|drag|drop|copy|paste|"
    r"print|search|sort|filter|zoom|resize|sync|backup|restore|scan|encode|decode|upload|download|"
    r"install(?:er)?|upgrade|suspend|resume|hibernate|sleep|wake|compile|deploy|migration|init|play|"
    # what it is about, or in
    r"memory|mem|ram|gc|gpu|cpu|vram|cuda|opengl|vulkan|driver|graphics|display|screen|dialog|popup|widget|"
    r"ui|gui|tui|cli|menu|tab|map|chat|camera|video|audio|sound|image|photo|picture|text|font|folder|"
    r"network|connection|http|socket|database|db|query|heap|stack|loop|cache|disk|usb|bluetooth|wifi|"
    r"gps|battery|keyboard|mouse|controller|touch|theme|settings|preferences|config|profile|account|"
    r"user|admin|login|token|json|xml|html|css|regex|string|array|pointer|null|nil|object|class|method|"
    r"parser|compiler|component|modules?|plug-?in|extension|add-?on|mods?|library|lib|api|sdk|"
    r"assert(?:ion)?|signal|sigsegv|sigabrt|segmentation|access|bus|fatal|hard|soft|full|double|"
    r"memory|time|day|night|level|world|player|entity|item|list|table|index|view|activity|service|"
    # where, and which
    r"android|ios|ipados|windows|win|win(?:32|64|10|11)|linux|mac|macos|osx|ubuntu|debian|fedora|arch|"
    r"x86|x64|arm|arm64|mobile|desktop|web|tablet|phone|release|debug|prod|production|staging|beta|"
    r"alpha|nightly|latest|major|minor|big|huge|main|core|early|late|small|old|same|similar|other|"
    rf"further|known|{_HOW})$"
)
"""Before the noun `crash` such a word says when, where or of which kind it is."""
_HOW_OFTEN: Final = lazily(rf"(?i)\b(?:{_HOW}|another) $")


def somebody(name: str) -> str | None:
    """The name; None where it is a word that names nobody, or a model's name."""
    is_word = _NOBODY.match(name) is not None or _MODEL.match(name) is not None
    return None if is_word else name


def is_kind_of_end(name: str) -> bool:
    """Does a word say of which kind a crash is, behind it, and not whose?"""
    return _OCCASIONS.match(name) is not None


def is_how_often(before: str) -> bool:
    """Do words end with one that says how a crash comes?"""
    return _HOW_OFTEN.search(before) is not None
