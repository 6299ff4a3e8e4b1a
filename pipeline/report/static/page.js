"use strict";
document.documentElement.classList.add("js");

// Before and after: one of them, both with a slider, or in turn.
const viewers = (() => {
  const BLINK_MS = 650;
  const timers = new Map();

  const show = (viewer, mode) => {
    clearInterval(timers.get(viewer));
    timers.delete(viewer);
    for (const button of viewer.querySelectorAll("button[data-mode]"))
      button.setAttribute("aria-pressed", String(button.dataset.mode === mode));
    if (mode !== "blink") { viewer.dataset.mode = mode; return; }
    viewer.dataset.mode = "after";
    timers.set(viewer, setInterval(() => {
      if (!viewer.isConnected) { clearInterval(timers.get(viewer)); return; }
      viewer.dataset.mode = viewer.dataset.mode === "after" ? "before" : "after";
    }, BLINK_MS));
  };

  const start = (viewer) => {
    const stage = viewer.querySelector(".stage");
    const split = viewer.querySelector(".split");
    if (!stage) return;
    const slide = () => {
      stage.style.setProperty("--split", `${split.value}%`);
      if (viewer.dataset.mode !== "slide") show(viewer, "slide");
    };
    split.addEventListener("input", slide);
    for (const button of viewer.querySelectorAll("button[data-mode]"))
      button.addEventListener("click", () => show(viewer, button.dataset.mode));
    const marks = viewer.querySelector("[data-marks]");
    marks.addEventListener("click", () => {
      const off = viewer.classList.toggle("unmarked");
      marks.setAttribute("aria-pressed", String(!off));
    });
    show(viewer, viewer.dataset.mode);
  };

  // A sentence under the pointer lights its outline.
  const light = (event, on) => {
    const told = event.target.closest?.("li[data-number]");
    const scope = told?.closest("article, main");
    for (const mark of scope?.querySelectorAll(`polygon[data-number="${told.dataset.number}"]`) ?? [])
      mark.classList.toggle("lit", on);
  };
  document.addEventListener("pointerover", (event) => light(event, true));
  document.addEventListener("pointerout", (event) => light(event, false));

  return { start, show, all: (root) => root.querySelectorAll("[data-viewer]").forEach(start) };
})();

// The filter of a page that is one file; its state is the fragment, so that links can set it.
const filtering = (form) => {
  const shown = document.getElementById("shown");
  const cards = [...document.querySelectorAll("article.card")];
  const words = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (card, wanted) => {
    if (wanted.camera && card.dataset.camera !== wanted.camera) return false;
    if (card.dataset.held && !wanted.held && form.elements.held) return false;
    return [...card.querySelectorAll(".told li")].some((told) =>
      (!wanted.type || told.dataset.type === wanted.type) && (!wanted.object || told.dataset.object === wanted.object) &&
      words(wanted.text).every((word) => told.textContent.toLowerCase().includes(word)));
  };
  const apply = () => {
    const wanted = Object.fromEntries(new FormData(form));
    for (const card of cards) card.hidden = !fits(card, wanted);
    shown.textContent = `${cards.filter((card) => !card.hidden).length} of ${cards.length} shown`;
  };
  const read = () => {
    const fragment = decodeURIComponent(location.hash.slice(1));
    const named = document.getElementById(fragment);
    const state = new URLSearchParams(named ? "" : location.hash.slice(1));
    for (const field of form.elements) {
      if (field.type === "checkbox") field.checked = state.has(field.name);
      else if (field.name) field.value = state.get(field.name) ?? "";
    }
    apply();
    if (named) { named.hidden = false; named.scrollIntoView(); }
  };
  form.addEventListener("input", () => {
    apply();
    const state = new URLSearchParams([...new FormData(form)].filter(([, value]) => value.trim()));
    history.replaceState(null, "", `#${state}`);
  });
  form.addEventListener("reset", () => { location.hash = ""; });
  form.addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("hashchange", read);
  read();
};

// Narrations as they come.
const follow = (feed) => {
  const MOST = 100;
  const status = document.getElementById("following");
  const spoken = document.getElementById("spoken");
  const cameras = document.getElementById("cameras");
  const piece = (html) => {
    const template = document.createElement("template");
    template.innerHTML = html;
    return template.content.firstElementChild;
  };
  const put = (name, html) => {
    const tile = piece(html);
    const old = [...cameras.children].find((each) => each.dataset.camera === name);
    if (old) old.replaceWith(tile); else cameras.append(tile);
  };
  const source = new EventSource(feed.dataset.events);
  source.addEventListener("open", () => { status.textContent = "following"; status.classList.add("on"); });
  source.addEventListener("error", () => { status.textContent = "connection lost, trying again"; status.classList.remove("on"); });
  source.addEventListener("camera", (event) => { const told = JSON.parse(event.data); put(told.name, told.html); });
  source.addEventListener("narration", (event) => {
    const told = JSON.parse(event.data);
    if ([...feed.children].some((each) => each.dataset.id === told.id)) return;
    const card = piece(told.html);
    feed.querySelector(".empty")?.remove();
    feed.prepend(card);
    viewers.all(card);
    spoken.textContent = told.text;
    while (feed.children.length > MOST) feed.lastElementChild.remove();
  });
};

// The box of what is corrected: drawn with a pointer, or moved with the arrow keys.
const drawing = (form) => {
  const button = form.querySelector("button");
  const hint = form.querySelector(".hint");
  const viewer = document.querySelector("[data-viewer]");
  if (!viewer) { form.hidden = true; return; }
  const stage = viewer.querySelector(".stage");
  let box, frame, from;

  const paint = () => {
    const [x, y, width, height] = box.map((share) => `${100 * share}%`);
    Object.assign(frame.style, { left: x, top: y, width, height });
  };
  const end = () => {
    stage.classList.remove("drawing");
    stage.removeAttribute("tabindex");
    frame?.remove();
    hint.textContent = "";
    for (const [name, heard] of Object.entries(heardBy)) stage.removeEventListener(name, heard);
  };
  const save = () => {
    form.elements.box.value = box.map((share) => share.toFixed(4)).join(",");
    end();
    form.submit();
  };
  const place = (event) => {
    const area = stage.getBoundingClientRect();
    const within = (share) => Math.min(1, Math.max(0, share));
    return [within((event.clientX - area.left) / area.width), within((event.clientY - area.top) / area.height)];
  };
  const heardBy = {
    pointerdown: (event) => { from = place(event); stage.setPointerCapture(event.pointerId); event.preventDefault(); },
    pointermove: (event) => {
      if (!from) return;
      const to = place(event);
      box = [Math.min(from[0], to[0]), Math.min(from[1], to[1]), Math.abs(to[0] - from[0]), Math.abs(to[1] - from[1])];
      paint();
    },
    pointerup: () => { const drawn = from && box[2] > 0.005 && box[3] > 0.005; from = undefined; if (drawn) save(); },
    keydown: (event) => {
      const step = { ArrowLeft: [-0.01, 0], ArrowRight: [0.01, 0], ArrowUp: [0, -0.01], ArrowDown: [0, 0.01] }[event.key];
      if (event.key === "Enter") save();
      else if (event.key === "Escape") { end(); button.focus(); }
      else if (step) {
        const at = event.shiftKey ? 2 : 0;
        for (const side of [0, 1]) {
          const most = event.shiftKey ? 1 - box[side] : 1 - box[side + 2];
          box[at + side] = Math.min(most, Math.max(event.shiftKey ? 0.01 : 0, box[at + side] + step[side]));
        }
        paint();
      } else return;
      event.preventDefault();
      event.stopPropagation();
    },
  };
  button.addEventListener("click", () => {
    viewers.show(viewer, form.dataset.draw);
    box = form.dataset.box.split(",").map(Number);
    frame = document.createElement("div");
    frame.className = "drawn";
    stage.append(frame);
    stage.classList.add("drawing");
    stage.tabIndex = 0;
    paint();
    hint.textContent = "Draw the box on the picture; or move it with the arrow keys (with Shift its size) and press Enter. Escape leaves it.";
    for (const [name, heard] of Object.entries(heardBy)) stage.addEventListener(name, heard);
    stage.focus();
  });
};

// Keys: rows of a list, records beside one another, what is shown, what is said.
const keys = (event) => {
  const typing = event.target.closest?.("input:not([type=range]), textarea, select");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const sliding = event.target.closest?.("input[type=range]");
  const viewer = document.querySelector("main.record [data-viewer]");
  const rows = [...document.querySelectorAll("[data-rows] .row a")];
  const press = (selector) => document.querySelector(selector)?.click();
  const move = (step) => {
    const at = rows.indexOf(document.activeElement);
    rows[Math.min(rows.length - 1, Math.max(0, at + step))]?.focus();
  };
  const done = {
    "/": () => document.getElementById("ask")?.focus(),
    j: () => (rows.length ? move(1) : press("#prev")),
    k: () => (rows.length ? move(-1) : press("#next")),
    ArrowLeft: () => sliding || press("#prev"),
    ArrowRight: () => sliding || press("#next"),
    u: () => press("#up"),
    b: () => viewer && viewers.show(viewer, "blink"),
    s: () => viewer && viewers.show(viewer, "slide"),
    o: () => viewer?.querySelector("[data-marks]").click(),
    r: () => press("[data-key=r]"),
    y: () => press("[data-key=y]"),
    x: () => press("[data-key=x]"),
  }[event.key];
  if (!done || (sliding && event.key.startsWith("Arrow"))) return;
  if (event.key === "/") event.preventDefault();
  done();
};

document.addEventListener("DOMContentLoaded", () => {
  viewers.all(document);
  const feed = document.getElementById("feed");
  if (feed) follow(feed);
  const filter = document.getElementById("filter");
  if (filter) filtering(filter);
  document.querySelectorAll(".draw").forEach(drawing);
  document.addEventListener("keydown", keys);
  // Fields that say nothing stay out of the address.
  document.getElementById("filters")?.addEventListener("formdata", (event) => {
    for (const [name, value] of [...event.formData]) if (!value) event.formData.delete(name);
  });
});
