// The difference between two texts, line by line.

const MOST_CELLS = 4_000_000; // of the table below: 16 MB

/** Lines of both texts in order: {kind: "same" | "added" | "removed", text}. */
export function changes(before, after) {
  const old = linesOf(before);
  const now = linesOf(after);
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) start += 1;
  let end = 0;
  while (end < old.length - start && end < now.length - start && old.at(-1 - end) === now.at(-1 - end)) end += 1;
  return [
    ...mark("same", old.slice(0, start)),
    ...middle(old.slice(start, old.length - end), now.slice(start, now.length - end)),
    ...mark("same", old.slice(old.length - end)),
  ];
}

/** The text between the first line and the last if these are a Markdown fence; else all of it. */
export function withoutFence(text) {
  const fenced = /^\s*```[^\n]*\n([\s\S]*?)\n?```\s*$/.exec(text);
  return fenced ? fenced[1] : text;
}

function linesOf(text) {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

function mark(kind, lines) {
  return lines.map((text) => ({ kind, text }));
}

// Longest common subsequence; texts that are too long for its table count as replaced.
function middle(old, now) {
  const width = now.length + 1;
  if (old.length * now.length > MOST_CELLS) return [...mark("removed", old), ...mark("added", now)];
  const common = new Int32Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i -= 1) {
    for (let j = now.length - 1; j >= 0; j -= 1) {
      const here = i * width + j;
      common[here] = old[i] === now[j] ? common[here + width + 1] + 1 : Math.max(common[here + width], common[here + 1]);
    }
  }
  const found = [];
  let [i, j] = [0, 0];
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) {
      found.push({ kind: "same", text: old[i] });
      [i, j] = [i + 1, j + 1];
    } else if (j === now.length || (i < old.length && common[(i + 1) * width + j] >= common[i * width + j + 1])) {
      found.push({ kind: "removed", text: old[i] });
      i += 1;
    } else {
      found.push({ kind: "added", text: now[j] });
      j += 1;
    }
  }
  return found;
}
