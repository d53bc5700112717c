// Colors for Python: keywords, texts, numbers and comments of a program or a value. What models wrote is hostile: every part becomes a text node.

const PYTHON = new RegExp([
  `([rRbBfFuU]{0,2}(?:"""[\\s\\S]*?(?:"""|$)|'''[\\s\\S]*?(?:'''|$)|"(?:\\\\[\\s\\S]|[^"\\\\\\n])*"?|'(?:\\\\[\\s\\S]|[^'\\\\\\n])*'?))`,
  "(#[^\\n]*)",
  "\\b(0[xX]\\w*|\\d(?:[eE][+-]\\d|[\\w.])*)",
  "\\b(False|None|True|and|as|assert|async|await|break|case|class|continue|def|del|elif|else|except|finally|for|from|global|if|import|in|is|lambda|match|nonlocal|not|or|pass|raise|return|try|while|with|yield)\\b",
  "\\b[A-Za-z_]\\w*", // a whole name, so that no prefix of a text is looked for at its end
].join("|"), "g");
const PYTHON_CLASSES = ["py-text", "py-comment", "py-number", "py-keyword"];

function pythonNodes(text) {
  const nodes = [];
  let end = 0;
  for (const found of text.matchAll(PYTHON)) {
    const at = found.slice(1).findIndex((part) => part !== undefined);
    if (at < 0) continue;
    nodes.push(text.slice(end, found.index), html("span", { class: PYTHON_CLASSES[at], text: found[0] }));
    end = found.index + found[0].length;
  }
  return [...nodes, text.slice(end)];
}
