"use strict";

// Before and after are shown by the style sheet; only the slider needs its value.
document.addEventListener("input", ({ target }) => {
  if (target.matches(".split")) target.closest(".stage").style.setProperty("--split", `${target.value}%`);
});

// Narrations as they come.
const follow = (feed) => {
  const EVERY_MS = 2000;
  const status = document.getElementById("following");
  const show = (page) => {
    for (const id of ["cameras", "today"]) {
      const [old, now] = [document, page].map((each) => each.getElementById(id));
      if (old && now && old.outerHTML !== now.outerHTML) old.replaceWith(now);
    }
    const known = new Map([...feed.children].map((card) => [card.dataset.id, card]));
    const { dataset, children } = page.getElementById("feed");
    feed.dataset.seen = dataset.seen;
    const cards = [...children].map((card) => known.get(card.dataset.id) ?? card);
    const fresh = cards.filter((card) => !known.has(card.dataset.id));
    feed.replaceChildren(...cards);
    document.getElementById("spoken").textContent = fresh.map((card) => card.querySelector(".statements")?.innerText).join(" ");
  };
  const ask = async () => {
    try {
      const answer = await fetch(`/feed?seen=${feed.dataset.seen}`, { headers: { accept: "text/html" }, redirect: "error" });
      if (!answer.ok) throw new Error(answer.status);
      if (answer.status === 200) show(new DOMParser().parseFromString(await answer.text(), "text/html"));
      status.textContent = status.dataset.following;
    } catch { status.textContent = status.dataset.lost; }
    setTimeout(ask, EVERY_MS);
  };
  ask();
};

// Areas and lines drawn on a camera's picture, as lines of the configuration.
const draw = (form) => {
  const { kind, name, points, yaml, undo, clear, copy, write } = form.elements;
  const [canvas, status] = [".canvas", "[role=status]"].map((each) => form.querySelector(each));
  const shapes = canvas.querySelectorAll(".drawn > *");
  const read = () => points.value.trim().split(/\s+/).filter(Boolean).map((point) => point.split(",").map(Number));
  const share = (value) => Math.min(Math.max(value, 0), 1).toFixed(3).replace(/\.?0+$/, "");
  const show = () => {
    const corners = read().filter((point) => point.length === 2 && point.every((value) => value >= 0 && value <= 1));
    const outline = kind.value === "lines" ? [...corners, ...[...corners].reverse()] : corners;
    for (const shape of shapes) shape.setAttribute("points", outline.join(" "));
    const list = `[${corners.map((point) => `[${point.map(share).join(", ")}]`).join(", ")}]`;
    const called = JSON.stringify(name.value.trim() || name.placeholder);
    const [key, least] = kind.value === "lines" ? ["points", 2] : ["polygon", 3];
    const hides = ["privacy", "masks"].includes(kind.value);
    if (write) write.hidden = hides;
    const entry = hides ? `${called}: ${list}` : `- {name: ${called}, ${key}: ${list}}`;
    yaml.value = corners.length < least ? `# ${least} ${status.dataset.more}` : `${kind.value}:\n  ${entry}`;
  };
  canvas.addEventListener("click", ({ clientX, clientY }) => {
    const { left, top, width, height } = canvas.getBoundingClientRect();
    const point = [share((clientX - left) / width), share((clientY - top) / height)].join(",");
    points.value = `${points.value.trim()} ${point}`.trim();
    show();
  });
  clear.addEventListener("click", () => { points.value = ""; show(); });
  undo.addEventListener("click", () => { points.value = points.value.trim().split(/\s+/).slice(0, -1).join(" "); show(); });
  copy.addEventListener("click", () => {
    yaml.select();
    status.textContent = document.execCommand("copy") ? status.dataset.copied : status.dataset.refused;
  });
  form.addEventListener("input", show);
  form.addEventListener("submit", (event) => { if (!write || write.hidden) event.preventDefault(); });
  show();
};

// Neither is in a page that is one file.
const [feed, drawing] = ["feed", "draw"].map((id) => document.getElementById(id));
if (feed) follow(feed);
if (drawing) draw(drawing);
