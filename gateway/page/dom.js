// Builds elements. Text only ever becomes text nodes: nothing here parses HTML.

/** Returns the element with this id, which index.html has. */
export function byId(id) {
  return document.getElementById(id);
}

/**
 * Makes an element. Properties that are functions become listeners, `class` the class;
 * all others are attributes. Children are nodes or strings; null and false are left out.
 */
export function el(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (typeof value === "function") made.addEventListener(name, value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child != null && child !== false));
  return made;
}

/** Makes an SVG element with attributes. */
export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Sets an element's text, if it differs: an unchanged text is neither drawn nor read out again. */
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}
