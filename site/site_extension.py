"""Extension of Sphinx: formulas as MathML, records as plain files, and the blocks that show output."""

from __future__ import annotations

import posixpath
import shutil
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from pygments.lexers.special import TextLexer
from sphinx import addnodes
from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, bool]:
    """Register what Sphinx asks for."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    app.add_lexer("output", TextLexer)
    app.connect("doctree-read", _plain_files, priority=100)  # before Sphinx notes what to download
    app.connect("build-finished", _copy_files)
    app.connect("env-purge-doc", lambda app, env, page: _files(env).pop(page, None))
    app.connect("env-merge-info", lambda app, env, pages, other: _files(env).update(_files(other)))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _inline(writer: Any, node: nodes.math) -> None:
    writer.body.append(tex2mathml(node.astext(), as_block=False))
    raise nodes.SkipNode


def _block(writer: Any, node: nodes.math_block) -> None:
    writer.body.append(f'<div class="math">{tex2mathml(node.astext(), as_block=True)}</div>')
    raise nodes.SkipNode


def _files(env: Any) -> dict[str, set[str]]:
    """Return the files that pages link to, by page."""
    if not hasattr(env, "locant_files"):
        env.locant_files = {}
    return env.locant_files


def _plain_files(app: Sphinx, tree: nodes.document) -> None:
    """Turn links to files into plain links: they open in the browser, under the name they have."""
    page = app.env.current_document.docname
    for link in list(tree.findall(addnodes.download_reference)):
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page), link["reftarget"]))
        _files(app.env).setdefault(page, set()).add(target)
        plain = nodes.reference("", "", *link.children, refuri=link["reftarget"], internal=True)
        link.replace_self(plain)


def _copy_files(app: Sphinx, error: Exception | None) -> None:
    if error is None and app.builder.format == "html":
        for file in sorted(set().union(*_files(app.env).values())):
            target = Path(app.outdir, file)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(Path(app.srcdir, file), target)
