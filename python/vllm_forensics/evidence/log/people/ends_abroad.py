"""What people call an end in other languages than English, each language one line."""

from __future__ import annotations

from typing import Final

SIGNALS: Final = {
    "zugriffsverletzung": "SIGSEGV",
    "violation d'accès": "SIGSEGV",
    "violación de acceso": "SIGSEGV",
    "violação de acesso": "SIGSEGV",
    "нарушение доступа": "SIGSEGV",
    "访问冲突": "SIGSEGV",
    "アクセス違反": "SIGSEGV",
}
"""What Windows calls a fault."""
ENDS: Final = "|".join(
    (
        r"(?<!\w)(?:st(?:ü|ue)rzt(?=[^.!?\n]{0,80} ab\b)|abgest(?:ü|ue)rzt|"
        r"abst(?:ü|ue)rzt)(?!\w)",
        r"(?<!\w)(?:plante(?= (?:au|à|lors|quand|dès|sans|après)\b)|"
        r"se ferme (?:tout seul|toute seule|inopinément))(?!\w)",
        r"(?<!\w)se (?:cierra|cerró) (?:sol[oa]|inesperadamente)(?!\w)",
        r"(?<!\w)(?:fecha|fechou) (?:sozinh[oa]|inesperadamente)(?!\w)",
        r"(?<!\w)(?:[Вв]ылет(?:ает|ел[\u043e\u0430]?)|[Кк]раш(?:ится|нулся|нулось)|"
        r"(?:[Пп]адает|[\u0423\u0443]пал[\u043e\u0430]?)(?= (?:при|после)\b))(?!\w)",
        "\u5d29\u6e83|\u95ea\u9000|\u6838\u5fc3\u5df2\u8f6c\u50a8|掉进程|"
        "进程(?:会|都|就)?(?:消失|退出(?!码)|挂)|(?:异常|意外|自动)退出(?!码)|挂掉|挂了",
        "\u30af\u30e9\u30c3\u30b7\u30e5|強制終了|異常終了|[がは]落ち(?:る|ます|た|ました|て)",
        "\ud06c\ub798\uc2dc|강제 ?종료|비정상 ?종료|튕[깁김겨]",
    )
)
"""German, French, Spanish, Portuguese, Russian, Chinese, Japanese, Korean."""
NOUNS: Final = r"(?<!\w)(?:absturz|plantage)(?!\w)"
"""What no verb says."""
