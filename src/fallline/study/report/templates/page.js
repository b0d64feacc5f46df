// Sorts a table by the column whose heading is pressed: numbers by value, gaps always last.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  heads.forEach((head, column) => {
    const button = head.querySelector("button");
    if (!button) return;
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      const key = (row) => row.cells[column].dataset.v ?? row.cells[column].textContent.trim();
      const rows = [...body.rows].map((row) => {
        const text = key(row);
        return { row, text, number: text === "" ? NaN : Number(text) };
      });
      const numeric = rows.every(({ text, number }) => text === "" || !Number.isNaN(number));
      rows.sort((a, b) => {
        if (a.text === "" || b.text === "") return (a.text === "") - (b.text === "");
        const order = numeric ? a.number - b.number : a.text.localeCompare(b.text);
        return down ? -order : order;
      });
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      body.append(...rows.map(({ row }) => row));
    });
  });
}
