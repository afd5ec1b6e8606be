// Draws at most once per frame, however many pieces of streams arrive in between.

const waiting = new Set();
let isAsked = false;

/** Calls `painter.paint()` before the next frame, once; it returns whether more is left to draw. */
export function paintSoon(painter) {
  waiting.add(painter);
  if (isAsked) return;
  isAsked = true;
  requestAnimationFrame(paintAll);
}

function paintAll() {
  isAsked = false;
  const now = [...waiting];
  waiting.clear();
  const left = now.filter((painter) => painter.paint());
  left.forEach(paintSoon);
}
