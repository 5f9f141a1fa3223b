"use strict";
{
  // Theme: the system's until the reader chooses one. The choice is not kept: pages opened
  // from a file have no storage of their own.
  const button = document.getElementById("theme");
  const choices = ["auto", "light", "dark"];
  button.addEventListener("click", () => {
    const choice = choices[(choices.indexOf(document.documentElement.dataset.theme) + 1) % 3];
    document.documentElement.dataset.theme = choice;
    button.textContent = `Theme: ${choice}`;
  });

  // Tooltips: whatever has data-tip, under the pointer or with the focus.
  const tip = document.getElementById("tip");
  const showTip = (target, x, y) => {
    const owner = target.closest?.("[data-tip]");
    tip.hidden = !owner;
    if (!owner) return;
    tip.textContent = owner.dataset.tip;
    const box = tip.getBoundingClientRect();
    const left = x + 14 + box.width > innerWidth ? x - 14 - box.width : x + 14;
    const top = y + 18 + box.height > innerHeight ? y - 12 - box.height : y + 18;
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${Math.max(4, top)}px`;
  };
  document.addEventListener("pointermove", (event) => showTip(event.target, event.clientX, event.clientY));
  document.addEventListener("pointerleave", () => { tip.hidden = true; });
  document.addEventListener("focusin", (event) => {
    const box = event.target.getBoundingClientRect();
    showTip(event.target, box.right, box.top);
  });
  document.addEventListener("focusout", () => { tip.hidden = true; });

  // Sorting: numbers the largest first, names from A; a second click turns the order round.
  for (const table of document.querySelectorAll("table.sortable")) {
    const headings = [...table.tHead.rows[0].cells];
    headings.forEach((heading, column) => heading.addEventListener("click", () => {
      const isNumber = heading.classList.contains("number");
      const first = isNumber ? "descending" : "ascending";
      const other = isNumber ? "ascending" : "descending";
      const order = heading.ariaSort === first ? other : first;
      for (const each of headings) each.removeAttribute("aria-sort");
      heading.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const key = (row) => row.cells[column].dataset.order ?? "";
      const compare = isNumber
        ? (a, b) => Number(key(a)) - Number(key(b))
        : (a, b) => key(a).localeCompare(key(b), "en", { numeric: true });
      const body = table.tBodies[0];
      body.append(...[...body.rows].sort((a, b) => sign * compare(a, b)));
    }));
  }

  // The tree of modules: a row is shown where every row above it in the tree is open.
  const rows = [...document.querySelectorAll("#module-table tbody tr")];
  const showTree = () => {
    let closedDepth = Infinity;
    for (const row of rows) {
      const depth = Number(row.dataset.depth);
      if (depth <= closedDepth) closedDepth = Infinity;
      row.hidden = depth > closedDepth;
      if (!row.hidden && row.dataset.open === "false") closedDepth = depth;
    }
  };
  for (const row of rows) {
    const toggle = row.querySelector("button");
    toggle?.addEventListener("click", () => {
      row.dataset.open = String(row.dataset.open !== "true");
      toggle.setAttribute("aria-expanded", row.dataset.open);
      showTree();
    });
  }
  showTree();
}
