"use strict";

// Before and after are shown by the style sheet; only the slider needs its value.
document.addEventListener("input", ({ target }) => {
  if (target.matches(".split")) target.closest(".stage").style.setProperty("--split", `${target.value}%`);
});

// Search of a page that is one file: cards without all of the words are hidden.
const search = (form) => {
  const apply = () => {
    const words = form.querySelector("[type=search]").value.toLowerCase().split(/\s+/);
    for (const card of document.querySelectorAll("article"))
      card.hidden = !words.every((word) => card.innerText.toLowerCase().includes(word));
  };
  form.addEventListener("input", apply);
  form.addEventListener("submit", (event) => event.preventDefault());
};

// Narrations as they come.
const follow = (feed) => {
  const MOST = 100;
  const status = document.getElementById("following");
  const cameras = document.getElementById("cameras");
  const element = (html) => document.createRange().createContextualFragment(html).firstElementChild;
  const source = new EventSource(feed.dataset.events);
  source.addEventListener("open", () => { status.textContent = "following"; });
  source.addEventListener("error", () => { status.textContent = "connection lost, trying again"; });
  source.addEventListener("camera", (event) => {
    const { name, html } = JSON.parse(event.data);
    const old = [...cameras.children].find((tile) => tile.dataset.camera === name);
    if (old) old.replaceWith(element(html)); else cameras.append(element(html));
  });
  source.addEventListener("narration", (event) => {
    const { id, visit, html, text } = JSON.parse(event.data);
    if ([...feed.children].some((card) => card.dataset.id === id)) return;
    feed.querySelector(".empty")?.remove();
    if (visit) [...feed.children].find((card) => card.dataset.visit === visit)?.remove();
    feed.prepend(element(html));
    document.getElementById("spoken").textContent = text;
    while (feed.children.length > MOST) feed.lastElementChild.remove();
  });
};

// A key clicks, or focuses, what names it.
const press = (event) => {
  const field = event.target.closest("input, textarea, select");
  const letter = event.key.length === 1 && ["radio", "checkbox", "range"].includes(field?.type);
  if (event.ctrlKey || event.metaKey || event.altKey || (field && !letter)) return;
  const named = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
  if (!named) return;
  event.preventDefault();
  if (named.type === "search") named.focus(); else named.click();
};

document.addEventListener("DOMContentLoaded", () => {
  const [form, feed] = ["search", "feed"].map((id) => document.getElementById(id));
  if (form) search(form);
  if (feed) follow(feed);
  document.addEventListener("keydown", press);
  // Empty fields stay out of the address.
  document.getElementById("filters")?.addEventListener("formdata", ({ formData }) => {
    for (const [name, value] of [...formData]) if (!value) formData.delete(name);
  });
});
