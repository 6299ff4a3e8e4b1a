"use strict";
(() => {
  const form = document.getElementById("filter");
  const shown = document.getElementById("shown");
  const articles = [...document.querySelectorAll("main > article")];
  const choices = [...form.querySelectorAll("select, input")];

  const words = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);

  const tells = (sentence, wanted) =>
    (!wanted.type || sentence.dataset.type === wanted.type) &&
    (!wanted.object || sentence.dataset.object === wanted.object) &&
    words(wanted.text).every((word) => sentence.textContent.toLowerCase().includes(word));

  const fits = (article, wanted) => {
    if (wanted.camera && article.dataset.camera !== wanted.camera) return false;
    if (!wanted.type && !wanted.object && !wanted.text.trim()) return true;
    return [...article.querySelectorAll(".sentence")].some((sentence) => tells(sentence, wanted));
  };

  const apply = () => {
    const wanted = { camera: "", type: "", object: "", text: "" };
    for (const choice of choices) wanted[choice.name] = choice.value;
    let number = 0;
    for (const article of articles) {
      article.hidden = !fits(article, wanted);
      number += article.hidden ? 0 : 1;
    }
    shown.textContent = `${number} of ${articles.length} shown`;
  };

  const share = () => {
    const state = new URLSearchParams();
    for (const choice of choices) if (choice.value.trim()) state.set(choice.name, choice.value);
    history.replaceState(null, "", `#${state}`);
  };

  // A fragment such as #n3 names a narration: it is shown, whatever was chosen.
  const read = () => {
    const fragment = location.hash.slice(1);
    const named = fragment && !fragment.includes("=") && document.getElementById(fragment);
    if (named && !named.hidden) return apply();
    const state = new URLSearchParams(named ? "" : fragment);
    for (const choice of choices) {
      choice.value = state.get(choice.name) ?? "";
      if (choice.selectedIndex === -1) choice.value = "";
    }
    apply();
    if (named) named.scrollIntoView();
  };

  form.addEventListener("input", () => { apply(); share(); });
  form.addEventListener("reset", () => setTimeout(() => { apply(); share(); }));
  form.addEventListener("submit", (event) => event.preventDefault());
  window.addEventListener("hashchange", read);
  form.hidden = false;
  read();
})();
