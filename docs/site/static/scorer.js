// Ranks search results: pages whose title has every word of the query come first.
var Scorer = {
  score: (result) => {
    const [, title, , , score, , kind] = result;
    const query = new URLSearchParams(window.location.search).get("q") || "";
    const words = query.toLowerCase().split(/\s+/).filter((word) => word);
    const isPage = kind === "text" || kind === "title";
    const named = words.every((word) => title.toLowerCase().includes(word.replace(/s$/, "")));
    const boost = title.includes(" > ") ? 10 : 20; // a section, or a page
    return isPage && words.length && named ? score + boost : score;
  },
  // The rest is Sphinx's own default.
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
