"""An audit of mapped modules as a table."""

from __future__ import annotations

import io

from rich.console import Console
from rich.table import Table
from rich.text import Text

from vllm_forensics.model.audit import CoreAudit, ModuleAudit


def render_audit(audits: tuple[CoreAudit, ...], width: int) -> str:
    """One table a core; what is wrong stands in the last column."""
    console = Console(
        file=io.StringIO(),
        width=width,
        color_system=None,
        markup=False,
        emoji=False,
        highlight=False,
    )
    with console.capture() as capture:
        for audit in audits:
            console.print(Text(f"{audit.core}: {len(audit.modules)} modules"))
            table = Table(box=None, pad_edge=False)
            for title in ("module", "names", "sanitizers", "remarks"):
                table.add_column(title, overflow="fold")
            for module in audit.modules:
                table.add_row(
                    Text(module.path.rsplit("/", 1)[-1]),
                    _names(module),
                    ", ".join(module.sanitizers) or "-",
                    Text("; ".join(_remarks(module))),
                )
            console.print(table)
    return "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"


def _names(module: ModuleAudit) -> str:
    if module.problem:
        return "?"
    if module.debug_info:
        return "debug info"
    return "symbols" if module.symbol_table else "exported only"


def _remarks(module: ModuleAudit) -> list[str]:
    remarks = [module.problem] if module.problem else []
    if module.missing:
        remarks.append("needed but not mapped: " + ", ".join(module.missing))
    runtimes = [
        name for name in module.needed if name.startswith(("libasan", "libtsan", "libubsan"))
    ]
    if len(runtimes) > 1 and {"libasan", "libtsan"} <= {name.split(".")[0] for name in runtimes}:
        remarks.append("two sanitizer runtimes: " + ", ".join(runtimes))
    return remarks
