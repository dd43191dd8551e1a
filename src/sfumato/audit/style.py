"""How the page of a report looks: in light and dark, on narrow screens and on paper."""

STYLE = """
:root { --paper: #fcfcfa; --ink: #1c2329; --soft: #58636d; --line: #d3d9de; --field: #f1f3f4;
  --seen: #2b6ca3; --bound: #a85500; --over: #c2281e; }
@media (prefers-color-scheme: dark) { :root { --paper: #14181c; --ink: #e5e9ec; --soft: #a3aeb7;
  --line: #3a434b; --field: #1f252a; --seen: #6fb4ea; --bound: #f2a65a; --over: #ff7468; } }
@media print { :root { --paper: #fff; --ink: #000; --soft: #444; --line: #bbb; --field: #f4f4f4;
  --seen: #2b6ca3; --bound: #a85500; --over: #c2281e; } figure, tr, pre { break-inside: avoid; } }
* { box-sizing: border-box; }
html { color-scheme: light dark; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 1.5rem 1rem 3rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2.25rem 0 .5rem; }
p { margin: .4rem 0; max-width: 44rem; }
code, pre { font: .875rem/1.45 ui-monospace, monospace; }
code { overflow-wrap: anywhere; }
h1 code { font-size: 1em; }
pre { background: var(--field); border: 1px solid var(--line); border-radius: 4px; padding: .6rem .75rem;
  margin: .5rem 0; white-space: pre-wrap; overflow-wrap: anywhere; }
pre.replay code { user-select: all; }
header { border-left: .35rem solid var(--soft); padding-left: 1rem; }
header.violated { border-color: var(--over); }
.verdict { font-weight: 700; margin: 0; color: var(--soft); }
.violated .verdict { color: var(--over); }
table { border-collapse: collapse; width: 100%; margin: .75rem 0; }
th, td { text-align: left; vertical-align: top; padding: .35rem .75rem .35rem 0;
  border-bottom: 1px solid var(--line); overflow-wrap: anywhere; }
th { font-weight: 600; }
th[scope=row] { width: 12rem; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; padding-right: 0;
  white-space: nowrap; }
caption { text-align: left; color: var(--soft); padding-bottom: .25rem; }
@media screen { .long { max-height: 26rem; overflow: auto; } }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr));
  gap: 1.5rem; }
figure { margin: .5rem 0; max-width: 34rem; }
figure h3 { font-size: 1rem; margin: 0; }
figcaption, .legend, footer { color: var(--soft); font-size: .875rem; }
svg { display: block; width: 100%; height: auto; font: 12px system-ui, sans-serif; }
svg text { fill: var(--soft); }
.grid { stroke: var(--line); }
.seen { fill: var(--seen); opacity: .3; }
.outline { fill: none; stroke: var(--seen); stroke-width: 1.5; }
.bound { fill: none; stroke: var(--bound); stroke-width: 2; stroke-dasharray: 6 2; }
.over { fill: var(--over); opacity: .5; }
.sure, .flag { fill: var(--over); opacity: .9; }
.legend span { white-space: nowrap; margin-right: 1.25rem; }
.legend svg { display: inline-block; width: 1.6rem; height: .8rem; vertical-align: baseline;
  margin-right: .3rem; }
@media (max-width: 30rem) { th[scope=row] { width: 7rem; } }
"""
